use std::time::Duration;

/// A refused attempt. As a response (feature `http`) it is a plain-text 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rate limit exceeded")]
pub struct Denied {
    /// How long until another attempt is of use.
    pub retry_after: Duration,
}
