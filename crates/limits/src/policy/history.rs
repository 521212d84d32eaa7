use smallvec::SmallVec;

use super::Policy;

/// The state of a key. Times are microseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum History {
    /// Nothing that counts.
    #[default]
    Fresh,
    /// Attempts were admitted not long ago.
    Counting(Counted),
    /// Every attempt is refused before `until`.
    Blocked {
        /// The end of the block.
        until: i64,
    },
}

impl History {
    /// The time of the last attempt; 0 for a key that does not count.
    pub(crate) fn counted_at(&self) -> i64 {
        match self {
            Self::Counting(counted) => counted.last,
            Self::Fresh | Self::Blocked { .. } => 0,
        }
    }

    /// The time from which this history has no effect.
    pub fn ends(&self, policy: &Policy) -> i64 {
        match self {
            Self::Fresh => i64::MIN,
            Self::Counting(counted) => counted.last.saturating_add(policy.window),
            Self::Blocked { until } => *until,
        }
    }
}

/// The attempts of a key that were admitted since it began afresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    last: i64,
    loose: u32,
    /// The times of every n-th attempt, the newest last. Most keys never have more than two.
    marks: SmallVec<[i64; 2]>,
}

impl Counted {
    /// The values of a store: the time of the last attempt, how many were admitted since the last mark, and the marks,
    /// the newest last.
    pub fn new(last: i64, loose: u32, marks: &[i64]) -> Self {
        Self { last, loose, marks: marks.into() }
    }

    /// The time of the last attempt.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// How many attempts were admitted since the last mark.
    pub fn loose(&self) -> u32 {
        self.loose
    }

    /// The time of every [`Policy::attempts_per_mark`]th attempt, the newest last.
    pub fn marks(&self) -> &[i64] {
        &self.marks
    }

    /// Empty.
    pub(super) fn beginning() -> Self {
        Self { last: i64::MIN, loose: 0, marks: SmallVec::new() }
    }

    /// Whether the last attempt is within the window around `now`. It is in the future where the clock was set back; a
    /// key does not wait for a clock that is more than a window behind.
    pub(super) fn is_live(&self, policy: &Policy, now: i64) -> bool {
        self.last.saturating_add(policy.window) > now && self.last < now.saturating_add(policy.window)
    }

    /// Whether an attempt at `now`, no earlier than the last one, would exceed the limit.
    pub(super) fn is_full(&self, policy: &Policy, now: i64) -> bool {
        let loose = self.loose.min(policy.attempts_per_mark() - 1);
        let back = (policy.max_attempts - 1 - loose) / policy.attempts_per_mark();
        let mark = usize::try_from(back).ok().and_then(|back| self.marks.iter().rev().nth(back));
        mark.is_some_and(|mark| mark.saturating_add(policy.window) > now)
    }

    /// Takes back the attempt that was admitted at `at`. `false` if it is no longer counted.
    ///
    /// With one attempt per mark, exactly this attempt is removed. Otherwise the number stays exact, and the times of later
    /// marks move to those of the next ones: the policy is never exceeded.
    pub(super) fn remove(&mut self, policy: &Policy, at: i64) -> bool {
        let per_mark = policy.attempts_per_mark();
        let loose = self.loose.min(per_mark - 1);
        let own = self.marks.partition_point(|mark| *mark < at);
        let is_marked = self.marks.get(own).is_some_and(|mark| per_mark > 1 || *mark == at);
        if at > self.last || (loose == 0 && !is_marked) {
            return false;
        }
        if loose > 0 {
            self.loose = loose - 1;
            // The marks after the attempt would each be that of one attempt later.
            self.marks.push(self.last);
        } else {
            self.loose = per_mark - 1;
        }
        if own < self.marks.len() {
            self.marks.remove(own);
        }
        true
    }

    /// Counts an attempt that is admitted at `now`.
    pub(super) fn add(&mut self, policy: &Policy, now: i64) {
        self.last = now;
        self.loose = self.loose.min(policy.attempts_per_mark() - 1) + 1;
        if self.loose < policy.attempts_per_mark() {
            return;
        }
        self.loose = 0;
        let most = usize::try_from(policy.marks()).unwrap_or(usize::MAX);
        let over = (self.marks.len() + 1).saturating_sub(most);
        self.marks.drain(..over);
        self.marks.push(now);
    }
}
