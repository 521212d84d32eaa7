use std::path::PathBuf;
use std::sync::Arc;

/// Why a statement or a transaction failed: classified once, the same on both engines.
///
/// The messages are for logs. A caller over the network gets another text for each case.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A unique constraint or index refused the row.
    #[error("unique violation on {table} ({})", columns.join(", "))]
    Unique {
        /// The table.
        table: String,
        /// The columns of the constraint. Empty when the engine names only the index.
        columns: Vec<String>,
    },
    /// A foreign key refused the row, or its deletion.
    #[error("foreign key violation{}", constraint.as_deref().map(|name| format!(" ({name})")).unwrap_or_default())]
    ForeignKey {
        /// The constraint's name, if the engine reports it (Postgres does, SQLite does not).
        constraint: Option<String>,
    },
    /// A NOT NULL column had no value.
    #[error("column {column} must not be null")]
    NotNull {
        /// The column.
        column: String,
    },
    /// A CHECK constraint refused the row.
    #[error("check violation: {0}")]
    Check(String),
    /// The database is locked by another process, or no connection came free in time.
    #[error("the database is busy")]
    Busy,
    /// Another transaction held a table for longer than this one waits for it.
    #[error("a table is locked by another transaction")]
    Locked,
    /// The transaction waited for something else than its own statements for too long, or a statement ran too long.
    /// It was rolled back.
    #[error("the transaction exceeded its deadline and was rolled back")]
    Deadline,
    /// A search read more text than [`Options::search_bytes`](crate::Options::search_bytes).
    #[error("the search would read more text than one list may")]
    SearchTooLarge,
    /// The write-ahead log grew by [`Options::export_bytes`](crate::Options::export_bytes) during the query of an export.
    #[error("the export took too long while the database was written to")]
    ExportTooSlow,
    /// The connection was lost, or none could be opened. It is unknown whether a running write was committed.
    #[error("the connection to the database was lost: {0}")]
    ConnectionLost(String),
    /// Concurrent transactions could not be ordered, even after trying again.
    #[error("the transaction could not be serialized")]
    Serialization,
    /// The database cannot be written to.
    #[error("the database is read-only")]
    ReadOnly,
    /// A table or a column that the statement names is not there: the tables were changed under this process.
    #[error("the tables are not those that this process knows: {0}")]
    Outdated(String),
    /// The disk is full.
    #[error("the database's disk is full")]
    DiskFull,
    /// A file of the SQLite database was removed or replaced while this process has it open. Nothing is acknowledged until the
    /// process is restarted: it would be stored where nobody finds it.
    #[error("the file {} was removed or replaced while the database is open; restart the server", .0.display())]
    FileLost(PathBuf),
    /// The database's text is not UTF-8, so that some texts could not be stored, and searches would compare bytes.
    #[error("the encoding of the database is {0}")]
    Encoding(String),
    /// A stored value has an unexpected type or format.
    #[error("column {column} of \"{statement}\" holds {found} where {expected} belongs")]
    Corrupt {
        /// The statement that read it.
        statement: String,
        /// The column.
        column: String,
        /// The kind of the value that was found, never the value itself.
        found: &'static str,
        /// The requested kind.
        expected: &'static str,
    },
    /// Two rows of what is read as records have the same id.
    #[error("two rows of {table} have the id {id:?}")]
    IdRepeats {
        /// The view.
        table: String,
        /// The id.
        id: String,
    },
    /// A stored value of one record has an unexpected type or format. The other records are not affected.
    #[error(
        "column {column} of the record {id} of {table} holds {found} where {expected} belongs; \
         `gatewright verify` lists all such values"
    )]
    Unreadable {
        /// The table.
        table: String,
        /// The id of the record.
        id: String,
        /// The column.
        column: String,
        /// The kind of the value that was found, never the value itself.
        found: &'static str,
        /// The expected kind.
        expected: &'static str,
    },
    /// A transaction was begun inside another one; use the outer one's [`Tx`](crate::Tx).
    #[error("a transaction cannot begin inside another one")]
    Nested,
    /// The closure panicked. It was rolled back.
    #[error("the transaction panicked and was rolled back: {0}")]
    Panicked(String),
    /// The database is shutting down.
    #[error("the database is closed")]
    Closed,
    /// Anything else the engine reports.
    #[error("{context}: {source}")]
    Other {
        /// The operation that failed.
        context: String,
        /// The driver's error.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Whether trying again later may help: answer 503 with Retry-After.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Busy
                | Self::Locked
                | Self::Deadline
                | Self::ConnectionLost(_)
                | Self::Serialization
                | Self::Closed
                | Self::DiskFull
                | Self::FileLost(_)
                | Self::Outdated(_)
        )
    }

    /// Whether a unique constraint over exactly `columns` of `table` refused the row.
    pub fn is_unique_on(&self, table: &str, columns: &[&str]) -> bool {
        matches!(self, Self::Unique { table: t, columns: c } if t == table && c.iter().map(String::as_str).eq(columns.iter().copied()))
    }

    pub(crate) fn other(
        context: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Other { context: context.into(), source: Arc::from(source.into()) }
    }
}

/// Why a database could not be opened. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is neither `sqlite://path` nor `postgres://…`.
    #[error("the database URL is not usable: {0}; write sqlite://file.db or postgres://user:password@host/database")]
    Url(String),
    /// The file or server could not be used.
    #[error("cannot open the database {location}: {reason}")]
    Unreachable {
        /// The file, or the server's host and database. Never the password.
        location: String,
        /// The cause.
        reason: String,
    },
    /// The Postgres database has another encoding than UTF8.
    #[error(
        "the database {location} has the encoding {encoding}, and UTF8 is required; create one with \
         `CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`, and copy the data with pg_dump and pg_restore"
    )]
    Encoding {
        /// The server's host and database. Never the password.
        location: String,
        /// Its encoding, such as `SQL_ASCII` or `LATIN1`.
        encoding: String,
    },
    /// The SQLite file is missing, and [`Options::create_file`](crate::Options::create_file) is off.
    #[error(
        "there is no SQLite file {location}; check the path in `database.url` or --database. `gatewright serve` and \
         `gatewright migrate` create it"
    )]
    Missing {
        /// The file.
        location: String,
    },
    /// Another server runs on the same SQLite file.
    #[error(
        "another server{} runs on the SQLite file {location}; stop it, or use another file; several servers on one \
         database need Postgres",
        process.map(|id| format!(" (process {id})")).unwrap_or_default()
    )]
    InUse {
        /// The file.
        location: String,
        /// The other server's process id, if it can be read.
        process: Option<u32>,
    },
}

/// Why nothing was copied. The existing files are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The database is on Postgres, which has its own tools.
    #[error(
        "the database is on Postgres; back it up with `pg_dump --format=custom --file=FILE URL`, and restore it with \
         `pg_restore --clean --if-exists --dbname=URL FILE`"
    )]
    Postgres,
    /// The database cannot be opened, or a server runs on it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is a file at the path of the copy.
    #[error("{} exists already and is not overwritten", .0.display())]
    Exists(PathBuf),
    /// The copy cannot be written.
    #[error("cannot write {}: {reason}", file.display())]
    Write {
        /// The copy.
        file: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The file is not a sound database of this program.
    #[error("{} is not a sound backup: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The problem with it.
        reason: String,
    },
}
