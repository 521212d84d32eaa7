use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;

use crate::engine::postgres::Listener;
use crate::engine::{Engine, postgres, sqlite};
use crate::row::RowRef;
use crate::{Error, Lane, OpenError, Row, Share, Sql, Tx, Value};

/// An open database. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Db(Arc<Handle>);

/// The chosen lane. Boxed, since handles are part of many futures.
struct Handle {
    open: Arc<Open>,
    lane: Lane,
    /// The share of its writes.
    share: Share,
}

struct Open {
    backend: Backend,
    list_timeout: Duration,
}

pub(crate) enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

/// Options for opening a database, and its time limits.
#[derive(Debug, Clone)]
pub struct Options {
    /// Postgres connections in all, at least 6: each [`Lane`] has its own, and transactions have theirs. SQLite always
    /// has one writer, and readers by the number of cores.
    pub max_connections: NonZeroUsize,
    /// How long a transaction may wait for anything except its own statements while it blocks SQLite's only writer.
    pub write_deadline: Duration,
    /// How long one statement may run.
    pub statement_timeout: Duration,
    /// How long a read of [`Lane::Lists`] may take, waiting included.
    pub list_timeout: Duration,
    /// How many bytes of text one read of [`Lane::Lists`] may search with
    /// [`contains_folded`](crate::dialect::contains_folded). A text counts once for each condition on it. SQLite counts
    /// them; on Postgres only `list_timeout` limits a search.
    pub search_bytes: u64,
    /// SQLite only: how many bytes of one [export](Db::export) wait in a file for a slow reader, and by how much the write-ahead log
    /// may grow during its query. Then the export ends.
    pub export_bytes: u64,
    /// How long to wait for another process's lock (SQLite) or for a free connection (Postgres).
    pub busy_timeout: Duration,
    /// The Postgres URL without the pooler. If it is set, the opened URL is that of a pooler which gives a connection
    /// to another client after each transaction (`PgBouncer` in transaction mode). Statements are then sent without
    /// preparing them. Everything that needs a session uses this URL: notifications, and queries for the types of
    /// placeholders.
    pub direct_url: Option<Secret>,
    /// Whether a missing SQLite file is created. If not, opening fails with [`OpenError::Missing`].
    pub create_file: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_connections: NonZeroUsize::new(16).expect("16 is not zero"),
            write_deadline: Duration::from_millis(250),
            statement_timeout: Duration::from_secs(30),
            list_timeout: Duration::from_secs(5),
            search_bytes: 1 << 30,
            export_bytes: 1 << 30,
            busy_timeout: Duration::from_secs(5),
            direct_url: None,
            create_file: true,
        }
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("engine", &self.engine()).finish_non_exhaustive()
    }
}

impl Db {
    /// Opens `sqlite://path` (created if missing, see [`Options::create_file`]) or `postgres://…`, and tests the
    /// connection once.
    ///
    /// `sqlite://data/app.db` is relative to the current folder, `sqlite:///var/lib/app.db` absolute. A Postgres URL
    /// takes libpq's parameters. Without `sslmode`, TLS is used on loopback if the server offers it, and required
    /// elsewhere, with a certificate that is verified. `disable` uses none, `prefer` uses it where it is offered, without
    /// verifying the certificate, and `require`, `verify-ca` and `verify-full` require and verify it. `sslrootcert` names a
    /// PEM file with the authority to trust, and alone means `verify-full`.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        // On the heap: opening is part of many futures, and happens once.
        let backend = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => Backend::Sqlite(Box::pin(sqlite::Sqlite::open(url, &options)).await?),
            Some("postgres" | "postgresql") => {
                Backend::Postgres(Box::pin(postgres::Postgres::open(url, &options)).await?)
            }
            _ => return Err(OpenError::Url("it has no scheme that is known".to_owned())),
        };
        let open = Arc::new(Open { backend, list_timeout: options.list_timeout });
        Ok(Self(Arc::new(Handle { open, lane: Lane::default(), share: Share::default() })))
    }

    /// Checks the form of a database URL without opening anything: what it refuses, [`open`](Self::open) refuses too.
    pub fn check_url(url: &str) -> Result<(), OpenError> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => sqlite::check_url(url),
            Some("postgres" | "postgresql") => postgres::check_url(url),
            _ => Err(OpenError::Url("it has no scheme that is known".to_owned())),
        }
    }

    /// Refuses a Postgres database that answers within a few seconds, and whose encoding is not UTF8, as
    /// [`open`](Self::open) does. Everything else passes, also a server that does not answer.
    pub async fn check_encoding(url: &str, options: &Options) -> Result<(), OpenError> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Box::pin(postgres::check_encoding(url, options)).await,
            _ => Ok(()),
        }
    }

    /// Whether other computers may read what is sent to the server of a URL: it is a Postgres server on another computer,
    /// and the URL does not require verified TLS. `false` for a URL that [`check_url`](Self::check_url) refuses.
    pub fn is_exposed(url: &str) -> bool {
        let is_postgres = matches!(url.split_once(':'), Some(("postgres" | "postgresql", _)));
        is_postgres && postgres::is_exposed(url)
    }

    /// Claims the database for this server. On SQLite, another process (or another [`Db`] of this one) that claims the
    /// same file is refused with [`OpenError::InUse`] until this claim ends: with [`close`](Self::close), with the last
    /// clone or with the process. Opening, reading and writing need no claim, so that commands work while a server
    /// runs. On Postgres many servers may share a database, and this does nothing.
    pub fn claim(&self) -> Result<(), OpenError> {
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.claim(),
            Backend::Postgres(_) => Ok(()),
        }
    }

    /// Closes the database for all clones: queued transactions still run, later calls fail with [`Error::Closed`]. On
    /// SQLite, the write-ahead log is moved into the database file first, so that this file contains everything.
    /// Dropping the last clone does the same, and blocks its thread until it is done.
    pub async fn close(&self) {
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::Postgres(postgres) => postgres.close(),
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.open.backend
    }

    /// Which engine this is. For [`dialect`](crate::dialect), not for call sites.
    pub fn engine(&self) -> Engine {
        match &self.0.open.backend {
            Backend::Sqlite(_) => Engine::Sqlite,
            Backend::Postgres(_) => Engine::Postgres,
        }
    }

    /// Whether both are handles of one open database, so that a transaction of one is a transaction of the other.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.open, &other.0.open)
    }

    /// The same database, whose reads use `lane`.
    #[must_use]
    pub fn lane(self, lane: Lane) -> Self {
        Self(Arc::new(Handle { open: self.0.open.clone(), lane, share: self.0.share }))
    }

    /// The same database, whose reads are lists of `share`.
    #[must_use]
    pub fn listing_for(&self, share: Share) -> Self {
        self.clone().lane(Lane::Lists(share))
    }

    /// The same database, whose writes belong to `share`: shares take turns, so that writes do not wait for all writes
    /// of another share. By default they belong to the program's own share, which other shares cannot block.
    #[must_use]
    pub fn writing_for(&self, share: Share) -> Self {
        Self(Arc::new(Handle { open: self.0.open.clone(), lane: self.0.lane, share }))
    }

    /// Runs `work` in a transaction and returns after it is durable.
    ///
    /// `work` may be run again from its start (a failed group commit, a serialization failure), so it must not move out
    /// of what it captures; effects outside the database must be repeatable.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.write(self.0.share, work).await,
            // On the heap, here and below: a future reserves space for all of its branches, and is copied whole into its box.
            // The Postgres branch is large, and one allocation costs little compared to its round trip.
            Backend::Postgres(postgres) => Box::pin(postgres.write(self.0.share, work)).await,
        }
    }

    /// Runs several reads in one hop. On SQLite they share one snapshot; on Postgres each statement has its own, at
    /// least as young as this call. Dropping the future stops the statement that runs. In [`Lane::Records`], `work` may
    /// run again from its start, if a statement of it was slow.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        // On the heap: this is part of many futures, which would contain it twice.
        let read = Box::pin(async {
            match &self.0.open.backend {
                Backend::Sqlite(sqlite) => sqlite.read(self.0.lane, work).await,
                Backend::Postgres(postgres) => Box::pin(postgres.read(self.0.lane, work)).await,
            }
        });
        match self.0.lane {
            Lane::Lists(_) => tokio::time::timeout(self.0.open.list_timeout, read)
                .await
                .unwrap_or_else(|_| Err(Error::Deadline.into())),
            Lane::Records(_) | Lane::Identity => read.await,
        }
    }

    /// Runs one writing statement in its own transaction and returns how many rows it changed.
    pub async fn execute(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<u64, Error> {
        let sql = sql.into();
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.execute(self.0.share, sql, params).await,
            Backend::Postgres(postgres) => postgres.execute(self.0.share, &sql, &params).await,
        }
    }

    /// Runs one query.
    pub async fn query(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        let sql = sql.into();
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.query(self.0.lane, sql, params).await,
            Backend::Postgres(postgres) => postgres.query(self.0.lane, &sql, &params).await,
        }
    }

    /// Runs one query and returns its first row, if there is one.
    pub async fn query_opt(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// The result of `read` for the first row of a query, if there is one, directly from the driver.
    pub async fn first<T, F>(&self, sql: impl Into<Sql>, params: Vec<Value>, read: F) -> Result<Option<T>, Error>
    where
        T: Clone + Send + 'static,
        F: Fn(&RowRef<'_>) -> Result<T, Error> + Send + 'static,
    {
        let first = move |found: &mut Option<T>, row: &RowRef<'_>| {
            if found.is_none() {
                *found = Some(read(row)?);
            }
            Ok(())
        };
        self.fold(sql, params, None, first).await
    }

    /// Runs one query and passes each row to `each`, directly from the driver. A slow query may be started again, with
    /// a new `start`.
    pub async fn fold<A, F>(&self, sql: impl Into<Sql>, params: Vec<Value>, start: A, each: F) -> Result<A, Error>
    where
        A: Clone + Send + 'static,
        F: Fn(&mut A, &RowRef<'_>) -> Result<(), Error> + Send + 'static,
    {
        let sql = sql.into();
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.fold(self.0.lane, sql, params, start, each).await,
            Backend::Postgres(postgres) => Box::pin(postgres.fold(self.0.lane, &sql, &params, start, each)).await,
        }
    }

    /// Runs one writing statement with RETURNING in its own transaction.
    pub async fn write_rows(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        let sql = sql.into();
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.write_rows(self.0.share, sql, params).await,
            Backend::Postgres(postgres) => postgres.write_rows(self.0.share, &sql, &params).await,
        }
    }

    /// Runs one writing statement with RETURNING in its own transaction, hands each row to `each`, and calls
    /// `after_commit` with the result once it is durable (in commit order on SQLite, on its writer thread: be short).
    pub async fn write_fold<A, F, C>(
        &self,
        sql: impl Into<Sql>,
        params: Vec<Value>,
        start: A,
        each: F,
        after_commit: C,
    ) -> Result<A, Error>
    where
        A: Clone + Send + 'static,
        F: Fn(&mut A, &RowRef<'_>) -> Result<(), Error> + Send + 'static,
        C: FnOnce(&A) + Send + 'static,
    {
        let sql = sql.into();
        match &self.0.open.backend {
            Backend::Sqlite(sqlite) => sqlite.write_fold(self.0.share, sql, params, start, each, after_commit).await,
            Backend::Postgres(postgres) => {
                Box::pin(postgres.write_fold(self.0.share, sql, params, start, each, after_commit)).await
            }
        }
    }

    /// Listens to notifications between replicas on `channel` ([`dialect::notify`](crate::dialect::notify)), on a
    /// separate connection. `None` on SQLite, which has no notifications.
    pub async fn listen(&self, channel: &str) -> Result<Option<Listener>, Error> {
        match &self.0.open.backend {
            Backend::Sqlite(_) => Ok(None),
            Backend::Postgres(postgres) => postgres.listen(channel).await.map(Some),
        }
    }

    /// Checks that the database responds, and that the files of a SQLite database are those that were opened.
    pub async fn ping(&self) -> Result<(), Error> {
        if let Backend::Sqlite(sqlite) = &self.0.open.backend {
            sqlite.check_files()?;
        }
        self.query("SELECT 1", Vec::new()).await.map(|_| ())
    }
}
