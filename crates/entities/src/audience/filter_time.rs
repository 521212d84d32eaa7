use std::time::Duration;

use parking_lot::Mutex;

/// The time limit for the filters of streams in one transaction, if there is an event log. A stream reads an event from the log if
/// its filter was not evaluated in the write.
const WITH_LOG: Duration = Duration::from_millis(10);
/// The limit for one event without a log. There, a stream does not get an event if its filter was not evaluated.
const WITHOUT_LOG: Duration = Duration::from_millis(500);

/// How long a transaction waits for the filters of streams. The writer did not request them, and on SQLite other writers
/// wait as well.
#[derive(Debug)]
pub(crate) enum FilterTime {
    OfTransaction(Mutex<Duration>),
    OfEvent,
}

impl FilterTime {
    pub(crate) fn new(has_log: bool) -> Self {
        if has_log { Self::OfTransaction(Mutex::new(WITH_LOG)) } else { Self::OfEvent }
    }

    pub(super) fn left(&self) -> Duration {
        match self {
            Self::OfTransaction(left) => *left.lock(),
            Self::OfEvent => WITHOUT_LOG,
        }
    }

    pub(super) fn leave(&self, left: Duration) {
        match self {
            Self::OfTransaction(all) => *all.lock() = left,
            Self::OfEvent => {}
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left().is_zero()
    }

    /// Whether a filter that did not finish within `time` is slow. Earlier filters may have used up most of the time.
    pub(super) fn is_fair(&self, time: Duration) -> bool {
        match self {
            Self::OfTransaction(_) => time >= WITH_LOG / 2,
            Self::OfEvent => true,
        }
    }
}
