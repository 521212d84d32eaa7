use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::Identity;

/// Resolves the credentials of a request again, long after the request began.
///
/// An event stream may be open for hours; a session, a role or an account may end in that time. The stream keeps the
/// [`Presented`] of its request and resolves it on every heartbeat.
pub trait Reauthenticate: Send + Sync + 'static {
    /// The current identity of the same credentials.
    fn again(&self) -> Pin<Box<dyn Future<Output = Result<Identity, Unavailable>> + Send + '_>>;

    /// The same for a long time: a copy that shares nothing with the request, whose headers keep the buffer in which they
    /// arrived. Absent if there is nothing to copy.
    fn kept(&self) -> Option<Presented> {
        None
    }
}

/// The stores behind authentication are not available, so the caller is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("authentication is unavailable")]
pub struct Unavailable;

/// The credentials of a request, to be resolved again later. The authentication middleware puts it into the request's
/// extensions; absent without that middleware.
#[derive(Clone)]
pub struct Presented(pub Arc<dyn Reauthenticate>);

impl Presented {
    /// The same, to be kept for a long time.
    pub fn kept(self) -> Self {
        self.0.kept().unwrap_or(self)
    }
}

impl std::fmt::Debug for Presented {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Presented(…)")
    }
}
