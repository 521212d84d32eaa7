use std::error::Error;

/// The backend cannot be reached, or answered with an error. Says nothing of credentials.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FanoutError(#[source] Box<dyn Error + Send + Sync>);

impl FanoutError {
    /// Wraps what the backend said.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

impl From<gatewright_db::Error> for FanoutError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}

/// Why there is no channel where a URL, or a database, leads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// It is no URL of such a server.
    #[error("{0}")]
    Url(String),
    /// The URL's parameter `channel` is no plain name.
    #[error("a channel's name is 1 to 63 letters, digits, `_` and `-`")]
    Name,
    /// SQLite tells nobody anything.
    #[error("notifications need Postgres, and this database is none")]
    NotPostgres,
    /// The table of large messages could not be made.
    #[error(transparent)]
    Migrate(#[from] gatewright_db::MigrateError),
    /// Making tables is switched off, and this one is not there.
    #[error("fan-out over Postgres needs the table event_fanout; run `gatewright migrate`")]
    NoTable,
    /// The database could not be asked.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
}
