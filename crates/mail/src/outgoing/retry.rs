use std::time::Duration;

/// Exponential backoff with jitter.
///
/// The pause after the n-th failure is `base` doubled n-1 times, at most `longest`, reduced by a random part of up to
/// half, so that many letters that failed together are not retried together. With the defaults, a letter whose link
/// lives long enough is tried for half a day.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// How often a letter is tried in all: 24.
    pub max_attempts: u32,
    /// The first pause: 1 second.
    pub base: Duration,
    /// The longest pause: 1 hour.
    pub longest: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 24, base: Duration::from_secs(1), longest: Duration::from_hours(1) }
    }
}

impl RetryPolicy {
    /// The pause after failure number `failures` (from 1), or nothing when that was the last attempt. `random` is any
    /// number, all equally likely.
    pub(super) fn pause(&self, failures: u32, random: u32) -> Option<Duration> {
        if failures >= self.max_attempts {
            return None;
        }
        let doublings = failures.saturating_sub(1).min(31);
        let whole = self.base.saturating_mul(1 << doublings).min(self.longest);
        Some(whole.mul_f64(1.0 - f64::from(random) / f64::from(u32::MAX) / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_pause_doubles_up_to_the_longest() {
        let policy = RetryPolicy::default();
        let seconds: Vec<u64> = (1..24).map(|failures| policy.pause(failures, 0).unwrap().as_secs()).collect();
        assert_eq!(seconds[..12], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]);
        assert_eq!(seconds[12..], [3600; 11]);
        assert_eq!(policy.pause(24, 0), None);
        assert_eq!(policy.pause(u32::MAX, 0), None);
    }

    proptest! {
        #[test]
        fn jitter_takes_at_most_half(failures in 1_u32..40, random: u32) {
            let policy = RetryPolicy { max_attempts: 40, ..RetryPolicy::default() };
            let whole = policy.pause(failures, 0).unwrap();
            let pause = policy.pause(failures, random).unwrap();
            prop_assert!(pause <= whole && pause >= whole.mul_f64(0.499), "{pause:?} of {whole:?}");
        }
    }
}
