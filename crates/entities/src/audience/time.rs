use std::time::Duration;

use parking_lot::Mutex;

/// The time limit for the filters of streams in one transaction, if there is an event log. A stream reads an event from the log if
/// its filter was not evaluated in the write.
const FILTERS: Duration = Duration::from_millis(10);
/// The same for the read rule. It is part of the configuration, but callers create the records that it reads.
const RULES: Duration = Duration::from_millis(200);
/// The limit for one event without a log. There, a stream does not get an event that was not evaluated for it.
const WITHOUT_LOG: Duration = Duration::from_millis(500);

/// How long a transaction waits for the streams that listen to it. The writer did not request them, and on SQLite other
/// writers wait as well.
#[derive(Debug)]
pub(crate) struct ListenerTime {
    pub(super) filters: Budget,
    pub(super) rules: Budget,
}

impl ListenerTime {
    pub(crate) fn new(has_log: bool) -> Self {
        let budget = |whole| if has_log { Budget::of_transaction(whole) } else { Budget::OfEvent };
        Self { filters: budget(FILTERS), rules: budget(RULES) }
    }
}

#[derive(Debug)]
pub(super) enum Budget {
    OfTransaction { whole: Duration, left: Mutex<Duration> },
    OfEvent,
}

impl Budget {
    fn of_transaction(whole: Duration) -> Self {
        Self::OfTransaction { whole, left: Mutex::new(whole) }
    }

    pub(super) fn left(&self) -> Duration {
        match self {
            Self::OfTransaction { left, .. } => *left.lock(),
            Self::OfEvent => WITHOUT_LOG,
        }
    }

    pub(super) fn leave(&self, remaining: Duration) {
        match self {
            Self::OfTransaction { left, .. } => *left.lock() = remaining,
            Self::OfEvent => {}
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left().is_zero()
    }

    /// Whether what did not finish within `time` is slow. Earlier evaluations may have used up most of the time.
    pub(super) fn is_fair(&self, time: Duration) -> bool {
        match self {
            Self::OfTransaction { whole, .. } => time >= *whole / 2,
            Self::OfEvent => true,
        }
    }
}
