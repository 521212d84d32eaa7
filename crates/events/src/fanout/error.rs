use std::error::Error;

/// The backend cannot be reached, or answered with an error. Contains no credentials.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FanoutError(#[source] Box<dyn Error + Send + Sync>);

impl FanoutError {
    /// Wraps an error of the backend.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

impl From<gatewright_db::Error> for FanoutError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}

/// Why a channel could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The URL is invalid for this kind of server.
    #[error("{0}")]
    Url(String),
    /// The URL's parameter `channel` is not a plain name.
    #[error("a channel's name is 1 to 63 letters, digits, `_` and `-`")]
    Name,
    /// SQLite has no notifications.
    #[error("notifications need Postgres; this database is SQLite")]
    NotPostgres,
    /// The table of large messages could not be created.
    #[error(transparent)]
    Migrate(#[from] gatewright_db::MigrateError),
    /// The table is missing, and creating tables is turned off.
    #[error("fan-out over Postgres needs the table event_fanout; run `gatewright migrate`")]
    NoTable,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
}
