use std::time::Duration;

use tokio::time::Instant;

use super::Shared;

/// The shortest time between two log lines about dropped letters.
const BETWEEN_REPORTS: Duration = Duration::from_secs(10);

/// How many dropped letters are logged already. They are logged here and not when they are dropped, so that a full
/// queue answers as fast as any other, and a flood produces few lines.
pub(crate) struct Drops {
    reported: u64,
    pub(crate) next_report: Instant,
}

impl Default for Drops {
    fn default() -> Self {
        Self { reported: 0, next_report: Instant::now() }
    }
}

impl Drops {
    pub(crate) fn has_news(&self, shared: &Shared) -> bool {
        shared.state.borrow().counts.dropped > self.reported
    }

    /// Logs how many letters were dropped since the last time.
    pub(crate) fn report(&mut self, shared: &Shared) {
        let total = shared.state.borrow().counts.dropped;
        let dropped = total - self.reported;
        if dropped > 0 {
            tracing::error!(dropped, "mails dropped: the outgoing queue is full or closed");
        }
        self.reported = total;
        self.next_report = Instant::now() + BETWEEN_REPORTS;
    }
}
