//! Keeps what is logged anywhere in the process, at every level, of lines that tell a canary.

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};

static CAUGHT: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Something that is logged while a test listens, and that it must have heard.
pub(super) const MARK: &str = "cnry-mark-of-the-log";

/// Listens from now on.
pub(super) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(|| Ear)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("nobody else listens");
    });
}

/// The lines with a canary in them.
pub(super) fn caught() -> Vec<String> {
    CAUGHT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Ear;

impl Write for Ear {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        // The SDK behind the tools writes whole calls and answers; the server's own log never hears it below a warning.
        if line.contains("cnry-") && !line.contains(" rmcp::") {
            CAUGHT.lock().unwrap_or_else(PoisonError::into_inner).push(line.into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
