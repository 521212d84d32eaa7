/// Any error of a host's own store.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error of a user store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserStoreError {
    /// No user has this id or address.
    #[error("user not found")]
    NotFound,
    /// Another user has this address.
    #[error("email taken")]
    EmailTaken,
    /// Rows with a restricting foreign key refer to the user. Contains the name of the constraint if the database
    /// reports it.
    #[error("records refer to this account{}", .0.as_ref().map(|name| format!(" ({name})")).unwrap_or_default())]
    Referenced(Option<String>),
    /// The store failed, so the result is unknown. Do not treat it as [`NotFound`](Self::NotFound).
    #[error("the user store failed: {0}")]
    Transport(#[source] BoxError),
}

impl UserStoreError {
    /// Any other error of a store.
    pub fn transport(error: impl Into<BoxError>) -> Self {
        Self::Transport(error.into())
    }
}
