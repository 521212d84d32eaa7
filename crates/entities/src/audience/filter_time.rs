use std::time::Duration;

use parking_lot::Mutex;

/// What the filters of streams may take in one transaction where there is an event log, from which a stream gets an event that its
/// filter was not asked about.
const WITH_LOG: Duration = Duration::from_millis(10);
/// What they may take for one event without a log. A stream does not get an event that its filter was not asked about.
const WITHOUT_LOG: Duration = Duration::from_millis(500);

/// How long a transaction waits for what streams want. The writer did not ask for it, and on SQLite others wait as well.
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

    /// Whether a filter that did not come to its end in `time` is slow. Earlier ones may have left it little.
    pub(super) fn is_fair(&self, time: Duration) -> bool {
        match self {
            Self::OfTransaction(_) => time >= WITH_LOG / 2,
            Self::OfEvent => true,
        }
    }
}
