/// What happened to letters since the queue began, and the letters that it has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Letters taken into the queue.
    pub accepted: u64,
    /// Letters turned away because the queue was full or closed.
    pub dropped: u64,
    /// Mails that were sent.
    pub sent: u64,
    /// Temporary failures after which another attempt was planned.
    pub retries: u64,
    /// Letters that were not sent: refused, tried too often, expired, or left over at the end.
    pub failed: u64,
    /// Letters in the queue now, including those being sent.
    pub waiting: u64,
    /// Letters in the queue whose first attempt is not over.
    pub untried: u64,
}

/// The counts, and whether letters are still taken. They change together, under one lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(super) counts: Counts,
    is_closed: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "a queue in memory has no database"))]
pub(crate) enum Outcome {
    Sent,
    /// It waits for its next attempt in this queue.
    Again,
    /// It waits for its next attempt in a database.
    Kept,
    /// It waits for its first attempt in a database.
    Stored,
    /// The database has no room for it.
    Dropped,
    Failed,
}

impl State {
    /// Takes one letter in, or counts it as dropped.
    pub(super) fn admit(&mut self, capacity: usize) -> bool {
        let counts = &mut self.counts;
        let is_full = usize::try_from(counts.waiting).is_ok_and(|waiting| waiting >= capacity);
        if self.is_closed || is_full {
            counts.dropped += 1;
            return false;
        }
        counts.accepted += 1;
        counts.waiting += 1;
        counts.untried += 1;
        true
    }

    /// Counts a letter that comes back from a database.
    #[cfg(feature = "sql")]
    pub(crate) fn restore(&mut self) {
        self.counts.waiting += 1;
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Counts the end of an attempt.
    pub(crate) fn settle(&mut self, is_first: bool, outcome: Outcome) {
        let counts = &mut self.counts;
        if is_first {
            counts.untried = counts.untried.saturating_sub(1);
        }
        match outcome {
            Outcome::Again | Outcome::Kept => counts.retries += 1,
            Outcome::Stored => {}
            Outcome::Dropped => counts.dropped += 1,
            Outcome::Sent => counts.sent += 1,
            Outcome::Failed => counts.failed += 1,
        }
        if outcome != Outcome::Again {
            counts.waiting = counts.waiting.saturating_sub(1);
        }
    }

    /// Takes one untried letter out again.
    pub(super) fn abandon_one(&mut self) {
        self.settle(true, Outcome::Failed);
    }

    /// Removes everything, and returns the number.
    pub(super) fn abandon_all(&mut self) -> u64 {
        let left = std::mem::take(&mut self.counts.waiting);
        self.counts.untried = 0;
        self.counts.failed += left;
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted_from_arrival_to_result() {
        let mut state = State::default();
        assert!(state.admit(2) && state.admit(2) && !state.admit(2));
        state.settle(true, Outcome::Again);
        let expected = Counts { accepted: 2, dropped: 1, retries: 1, waiting: 2, untried: 1, ..Counts::default() };
        assert_eq!(state.counts, expected);
        state.settle(false, Outcome::Sent);
        assert!(state.admit(2), "there is room again");
        state.close();
        assert!(!state.admit(2));
        assert_eq!(state.abandon_all(), 2);
        let expected = Counts { accepted: 3, dropped: 2, retries: 1, sent: 1, failed: 2, ..Counts::default() };
        assert_eq!(state.counts, expected);
    }
}
