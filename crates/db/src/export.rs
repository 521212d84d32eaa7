//! The rows of one query as bytes: in one snapshot, at bounded memory, at the pace of whoever reads them.

use std::time::Duration;

use tokio::time::Instant;

use crate::db::Backend;
use crate::engine::{postgres, sqlite};
use crate::row::RowRef;
use crate::{Db, Error, Sql, Value};

/// How many bytes a piece has before it is handed on.
pub(crate) const PIECE: usize = 64 * 1024;

/// The longest time of an export, which both engines can count.
const LONGEST: Duration = Duration::from_hours(24 * 20);

/// An export in progress. Dropping it stops its query.
pub struct Export {
    pieces: Pieces,
    until: Instant,
    is_complete: bool,
}

enum Pieces {
    Sqlite(sqlite::Pieces),
    Postgres(postgres::Pieces),
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("until", &self.until).finish_non_exhaustive()
    }
}

impl Db {
    /// Runs one query, of any number of rows, for at most `time`. `write` appends each row to the bytes of a piece, which are
    /// handed on after a row. The query has a connection of its own, so that no list waits for it.
    ///
    /// A slow reader does not keep SQLite from moving its log: what it has not read waits in a file, up to
    /// [`Options::export_bytes`](crate::Options::export_bytes). An export ends with [`Error::ExportTooSlow`] if the log grows by as
    /// much during its query. On Postgres the query waits for its reader.
    #[cfg_attr(not(feature = "postgres"), allow(unreachable_code, reason = "without the engine it has no pieces"))]
    #[cfg_attr(not(feature = "sqlite"), allow(unreachable_code, reason = "without the engine it has no pieces"))]
    pub fn export<F>(&self, sql: impl Into<Sql>, params: Vec<Value>, time: Duration, write: F) -> Export
    where
        F: FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error> + Send + 'static,
    {
        let (sql, time) = (sql.into(), time.min(LONGEST));
        let pieces = match self.backend() {
            Backend::Sqlite(sqlite) => Pieces::Sqlite(sqlite.export(sql, params, time, write)),
            Backend::Postgres(postgres) => Pieces::Postgres(postgres.export(sql, params, time, write)),
        };
        Export { pieces, until: Instant::now() + time, is_complete: false }
    }
}

impl Export {
    /// The next bytes, which end after a row. `None` after the last row; an export that failed ends with its error.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.is_complete {
            return Ok(None);
        }
        if Instant::now() >= self.until {
            return Err(Error::Deadline);
        }
        let next = async {
            match &mut self.pieces {
                Pieces::Sqlite(pieces) => pieces.next().await,
                Pieces::Postgres(pieces) => pieces.next().await,
            }
        };
        let next = tokio::time::timeout_at(self.until, next).await.unwrap_or(Err(Error::Deadline));
        self.is_complete = matches!(next, Ok(None));
        next
    }
}
