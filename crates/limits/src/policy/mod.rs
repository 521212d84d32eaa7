//! The rule itself, without clock, store or locks: how a key's history decides its next attempt.
//!
//! An attempt is admitted if fewer than `max_attempts` were admitted within the window that ends with it. The next one
//! blocks the key for the block duration, in which every attempt is refused and none prolongs the block. After the
//! block, or after a window without any admitted attempt, the key starts again.
//!
//! The window slides: it has no fixed start, so that no period as long as a window admits more than `max_attempts`,
//! wherever it begins. (A window that began with a key's first attempt would admit nearly twice as many to a caller who
//! spends one budget just before it ends and the next just after.) Only a block divides such a period: if a block is
//! shorter than the window, the full budget is available after it, since a block ends at its time.
//!
//! An attempt that succeeded may be [given back](give_back), so that only failures count. It then counts as if it had never
//! been made; nothing else changes.
//!
//! # What is stored for a key
//!
//! At most [`Policy::MARKS`] times, so that no key takes more than half a kilobyte, for any number of allowed attempts.
//! For up to that many attempts the time of each is stored and the rule is exact. Above that, one time is stored for
//! every [`Policy::attempts_per_mark`] attempts. The rule then never admits more than the policy does, and may refuse
//! when up to one part in 64 of the budget is left; a burst after a quiet window gets the whole budget.

mod decide;
mod history;

use std::time::Duration;

pub use decide::{Verdict, decide, give_back};
pub use history::{Counted, History};

/// At most `max_attempts` per `window`, then a block for `block`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    max_attempts: u32,
    /// In microseconds, as everything that is counted in.
    window: i64,
    block: i64,
}

impl Policy {
    /// How many times are stored for a key at most.
    pub const MARKS: u32 = 64;

    /// A policy of these numbers; a zero takes the default: 10 attempts, a window of 15 minutes, a block of 30 minutes.
    /// Durations are rounded up to whole microseconds, and cut to 100 years.
    pub fn new(max_attempts: u32, window: Duration, block: Duration) -> Self {
        let or = |given: Duration, default| if given.is_zero() { default } else { given.min(LONGEST) };
        Self {
            max_attempts: if max_attempts == 0 { 10 } else { max_attempts },
            window: micros(or(window, Duration::from_mins(15))),
            block: micros(or(block, Duration::from_mins(30))),
        }
    }

    /// This policy with `factor` times as many attempts.
    #[must_use]
    pub fn times(&self, factor: u32) -> Self {
        Self { max_attempts: self.max_attempts.saturating_mul(factor.max(1)), ..*self }
    }

    /// Attempts admitted inside the window.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// How long attempts count together.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window.unsigned_abs())
    }

    /// How long a block lasts.
    pub fn block(&self) -> Duration {
        Duration::from_micros(self.block.unsigned_abs())
    }

    /// The window in microseconds.
    pub fn window_micros(&self) -> i64 {
        self.window
    }

    /// The block in microseconds.
    pub fn block_micros(&self) -> i64 {
        self.block
    }

    /// The number of admitted attempts per stored time: 1 for up to [`Policy::MARKS`] attempts.
    pub fn attempts_per_mark(&self) -> u32 {
        self.max_attempts.div_ceil(Self::MARKS)
    }

    /// How many times are stored: enough to look `max_attempts` back.
    pub fn marks(&self) -> u32 {
        self.max_attempts.div_ceil(self.attempts_per_mark())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(0, Duration::ZERO, Duration::ZERO)
    }
}

const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_fields_take_the_defaults() {
        let minutes = Duration::from_mins;
        let policy = Policy::default();
        assert_eq!((policy.max_attempts(), policy.window(), policy.block()), (10, minutes(15), minutes(30)));
        let policy = Policy::new(3, Duration::ZERO, minutes(7));
        assert_eq!((policy.max_attempts(), policy.window(), policy.block()), (3, minutes(15), minutes(7)));
    }

    #[test]
    fn durations_are_neither_zero_nor_unlimited() {
        let policy = Policy::new(1, Duration::from_nanos(1), Duration::MAX);
        assert_eq!((policy.window_micros(), policy.block()), (1, LONGEST));
    }

    #[test]
    fn the_times_that_are_kept_reach_back_far_enough_and_are_few() {
        for attempts in [1, 2, 10, 63, 64, 65, 100, 128, 129, 1_000, 1_000_000, u32::MAX] {
            let policy = Policy::new(attempts, Duration::ZERO, Duration::ZERO);
            assert!(policy.marks() <= Policy::MARKS, "{attempts}");
            let reach = u64::from(policy.marks()) * u64::from(policy.attempts_per_mark());
            assert!(reach >= u64::from(attempts), "{attempts}");
            assert_eq!(policy.attempts_per_mark() == 1, attempts <= Policy::MARKS);
        }
    }
}
