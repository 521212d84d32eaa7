use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server is about to stop. Cheap to clone; all clones change together.
///
/// While it drains, the server answers every request and closes the connection after the answer (`Connection: close`,
/// RFC 9112, section 9.6). A client or proxy that keeps connections alive learns so in time that it has to open a new one.
/// A connection that is closed without that notice may meet a request on its way, which then fails.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draining(Arc<AtomicBool>);

impl Draining {
    /// From now on the server is about to stop.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the server is about to stop.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
