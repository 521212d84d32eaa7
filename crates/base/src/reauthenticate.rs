use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::Identity;

/// Asks again who a credential belongs to, long after the request that carried it began.
///
/// An event stream lives for hours; a session, a role or an account may end meanwhile. The stream keeps what the
/// request [`Presented`] and asks on every heartbeat.
pub trait Reauthenticate: Send + Sync + 'static {
    /// The identity that the same credentials would give now.
    fn again(&self) -> Pin<Box<dyn Future<Output = Result<Identity, Unavailable>> + Send + '_>>;

    /// The same for a long time: a copy that shares nothing with the request, whose headers hold the buffer in which they
    /// came. Absent where there is nothing to copy.
    fn kept(&self) -> Option<Presented> {
        None
    }
}

/// The stores behind authentication did not answer, so nothing can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("authentication is unavailable")]
pub struct Unavailable;

/// The credentials that a request carried, to be asked again later. Put into the request's extensions by the
/// authentication middleware; absent where the host has none.
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
