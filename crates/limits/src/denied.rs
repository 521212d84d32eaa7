use std::time::Duration;

/// A refused attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The limit is reached. As a response (feature `http`) it is a plain-text 429.
    #[error("rate limit exceeded")]
    Limit {
        /// How long until another attempt is of use.
        retry_after: Duration,
    },
    /// The store does not answer, so that nobody can count the attempt. As a response it is the same 429.
    #[error("rate limit exceeded")]
    StoreDown {
        /// How long to wait before the next attempt.
        retry_after: Duration,
    },
}

impl Denied {
    /// How long to wait before the next attempt.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Limit { retry_after } | Self::StoreDown { retry_after } => *retry_after,
        }
    }
}
