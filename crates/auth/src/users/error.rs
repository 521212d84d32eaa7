/// Any error of a host's own store.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a user store fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserStoreError {
    /// Nobody has this id or address.
    #[error("user not found")]
    NotFound,
    /// Somebody has this address already.
    #[error("email taken")]
    EmailTaken,
    /// Rows refer to the user and must not lose it. The name of the constraint, if the database tells it.
    #[error("records refer to this account{}", .0.as_ref().map(|name| format!(" ({name})")).unwrap_or_default())]
    Referenced(Option<String>),
    /// The store could not do its work, so nothing is known: never to be taken for [`NotFound`](Self::NotFound).
    #[error("the user store failed: {0}")]
    Transport(#[source] BoxError),
}

impl UserStoreError {
    /// Any error that is neither of the other two.
    pub fn transport(error: impl Into<BoxError>) -> Self {
        Self::Transport(error.into())
    }
}
