//! Keeps what is logged anywhere in the process, at every level, where it contains a canary.
//!
//! Values are searched as they are recorded: formatting whole lines, for every test of the process, took most of its time.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber, callsite};

static CAUGHT: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LISTENING: AtomicBool = AtomicBool::new(false);
/// A line that is logged while a test records, and that it must find.
pub(super) const MARK: &str = "cnry-mark-of-the-log";

/// Listens until the guard is dropped. One test does so, once.
pub(super) fn listen() -> Listening {
    LISTENING.store(true, Ordering::SeqCst);
    tracing::subscriber::set_global_default(Listener).expect("no other test of this process sets a subscriber");
    Listening
}

/// Ends the listening, so that the other tests of the process are not slowed down.
pub(super) struct Listening;

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENING.store(false, Ordering::SeqCst);
        callsite::rebuild_interest_cache();
    }
}

/// The events and spans with a canary in them.
pub(super) fn caught() -> Vec<String> {
    CAUGHT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Listener;

impl Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    /// The SDK behind the tools logs whole calls and answers; the server's own log has only its warnings and errors.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_kept = !metadata.target().starts_with("rmcp") || *metadata.level() <= Level::WARN;
        LISTENING.load(Ordering::SeqCst) && is_kept
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        search(span.metadata().target(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        search("a span's later values", |line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        search(event.metadata().target(), |line| event.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Keeps what is recorded if it contains a canary.
fn search(target: &str, record: impl FnOnce(&mut Line)) {
    let mut line = Line(target.to_owned());
    record(&mut line);
    if line.0.contains("cnry-") {
        CAUGHT.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.extend([" ", field.name(), "=", value]);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _infallible = write!(self.0, " {}={value:?}", field.name());
    }
}
