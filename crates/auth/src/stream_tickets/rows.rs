use gatewright_db::{Db, Error, Sql, Step, Tx, dialect, params};
use jiff::Timestamp;

use crate::single_use::TokenKey;

/// The name under which the table is brought up to date.
pub(crate) const COMPONENT: &str = "stream_tickets";

/// The steps that create the table.
pub(crate) const MIGRATIONS: &[Step] = &[Step {
    version: 1,
    name: "tickets for event streams",
    sql: "CREATE TABLE auth_stream_tickets (
            ticket_hash {bytes} PRIMARY KEY,
            sealed {bytes} NOT NULL,
            expires_at {time} NOT NULL
          );
          CREATE INDEX auth_stream_tickets_expires_at ON auth_stream_tickets (expires_at)",
}];

/// Tickets that have ended which each new one removes.
const RECLAIMED_AT_ONCE: i64 = 32;

/// Tickets in the table `auth_stream_tickets`.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    db: Db,
    sweep: Sql,
}

impl Rows {
    pub(super) fn new(db: Db) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "auth_stream_tickets", "ticket_hash", "expires_at").into();
        Self { db, sweep }
    }

    pub(super) async fn put(
        &self,
        key: &TokenKey,
        sealed: Vec<u8>,
        now: Timestamp,
        ends: Timestamp,
    ) -> Result<(), Error> {
        const PUT: &str = "INSERT INTO auth_stream_tickets (ticket_hash, sealed, expires_at) VALUES (?1, ?2, ?3)";
        let (sweep, values) = (self.sweep.clone(), params![key.as_bytes().to_vec(), sealed, ends]);
        let put = async move |tx: &Tx| -> Result<(), Error> {
            tx.execute(&sweep, params![now, RECLAIMED_AT_ONCE]).await?;
            tx.execute(PUT, values.clone()).await.map(|_| ())
        };
        self.db.write(put).await
    }

    /// Removes a ticket and returns its encrypted contents, if it has not expired.
    pub(super) async fn take(&self, key: &TokenKey, now: Timestamp) -> Result<Option<Vec<u8>>, Error> {
        // Bytes: of one ticket, as large as the headers that it was made of.
        let sql = "DELETE FROM auth_stream_tickets WHERE ticket_hash = ?1 RETURNING sealed, expires_at";
        let rows = self.db.write_rows(sql, params![key.as_bytes().to_vec()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let live = row.get::<Timestamp>("expires_at")? > now;
        Ok(if live { Some(row.get("sealed")?) } else { None })
    }

    pub(super) async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, Error> {
        self.db.execute(&self.sweep, params![now, limit]).await
    }
}
