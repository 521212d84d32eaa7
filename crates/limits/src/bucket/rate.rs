use std::time::Duration;

/// A sustained rate with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Microseconds per token.
    interval: i64,
    burst: u32,
}

/// Numbers that make no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rate needs between 0.000001 and 1000000 requests per second and a burst between 1 and 1000000")]
pub struct InvalidRate;

/// The result for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Whether there was a token.
    pub admitted: bool,
    /// The remaining tokens.
    pub remaining: u32,
    /// How long until the bucket is full.
    pub reset: Duration,
    /// The time until there is a token; zero if one is left.
    pub retry_after: Duration,
}

/// The largest burst.
const MOST: u32 = 1_000_000;

impl Rate {
    /// `per_second` tokens a second, at most `burst` at once. The rate is rounded to whole microseconds per token,
    /// never above the requested rate.
    pub fn new(per_second: f64, burst: u32) -> Result<Self, InvalidRate> {
        if !(1e-6..=1e6).contains(&per_second) || !(1..=MOST).contains(&burst) {
            return Err(InvalidRate);
        }
        #[expect(clippy::cast_possible_truncation, reason = "between 1 and 1e12 by the check above")]
        let interval = (1e6 / per_second).ceil() as i64;
        Ok(Self { interval, burst })
    }

    /// This rate and burst multiplied, up to the maximum rate.
    pub fn times(&self, factor: u32) -> Self {
        let factor = factor.max(1);
        // Rounded up: never above the requested rate.
        let interval = (self.interval - 1) / i64::from(factor) + 1;
        Self { interval, burst: self.burst.saturating_mul(factor).min(MOST) }
    }

    /// The most tokens that a bucket holds.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// Microseconds per token.
    pub fn interval(&self) -> i64 {
        self.interval
    }

    /// Microseconds from empty to full.
    pub fn span(&self) -> i64 {
        self.interval * i64::from(self.burst)
    }

    /// Takes a token at `now` from a bucket that is full at `full_at` (microseconds since 1970; an unknown bucket is full
    /// now), and gives the new `full_at`. A clock that was set back empties a bucket at most.
    pub fn take(&self, full_at: i64, now: i64) -> (Level, i64) {
        let known = full_at.clamp(now, now.saturating_add(self.span()));
        let taken = known.saturating_add(self.interval);
        let admitted = taken.saturating_sub(now) <= self.span();
        let full_at = if admitted { taken } else { known };
        (self.level(admitted, full_at.saturating_sub(now)), full_at)
    }

    /// The level of a bucket that is full in `missing` microseconds.
    pub(super) fn level(&self, admitted: bool, missing: i64) -> Level {
        let micros = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or_default());
        let remaining = (self.span() - missing).max(0) / self.interval;
        Level {
            admitted,
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            reset: micros(missing),
            retry_after: micros(missing + self.interval - self.span()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_rates_are_refused() {
        for (per_second, burst) in
            [(0.0, 1), (-1.0, 1), (f64::NAN, 1), (f64::INFINITY, 1), (1e7, 1), (1.0, 0), (1.0, 2_000_000)]
        {
            assert_eq!(Rate::new(per_second, burst), Err(InvalidRate), "{per_second} {burst}");
        }
        assert_eq!(Rate::new(3.0, 1).unwrap().interval(), 333_334, "never above what was asked for");
    }

    #[test]
    fn a_multiplied_rate_is_cut_at_the_maximum() {
        let cases =
            [(2.0, 3, 10, 50_000, 30), (1e6, 1, 10, 1, 10), (1.0, 500_000, 10, 100_000, MOST), (4.0, 2, 0, 250_000, 2)];
        for (per_second, burst, factor, interval, most) in cases {
            let times = Rate::new(per_second, burst).unwrap().times(factor);
            assert_eq!((times.interval(), times.burst()), (interval, most), "{per_second} {burst} {factor}");
        }
    }

    #[test]
    fn every_row_of_the_table_of_levels_holds() {
        let rate = Rate::new(2.0, 3).unwrap();
        let ms = Duration::from_millis;
        let (mut full_at, mut now) = (0, 1_000_000);
        // wait in ms, admitted, remaining, reset, retry after
        let cases = [
            (0, true, 2, 500, 0),
            (0, true, 1, 1_000, 0),
            (0, true, 0, 1_500, 500),
            (0, false, 0, 1_500, 500),
            (200, false, 0, 1_300, 300),
            (300, true, 0, 1_500, 500),
            (750, true, 0, 1_250, 250),
            (60_000, true, 2, 500, 0),
            (-3_600_000, false, 0, 1_500, 500),
        ];
        for (wait, admitted, remaining, reset, retry_after) in cases {
            now += wait * 1_000;
            let (level, after) = rate.take(full_at, now);
            let expected = Level { admitted, remaining, reset: ms(reset), retry_after: ms(retry_after) };
            assert_eq!(level, expected, "after {wait} ms");
            full_at = after;
        }
        let (_, extreme) = rate.take(i64::MAX, i64::MAX);
        rate.take(extreme, i64::MIN);
    }

    proptest! {
        #[test]
        fn no_period_admits_more_than_burst_and_rate(per_second in 1_u32..50, burst in 1_u32..20, pace in prop::collection::vec(0_i64..200_000, 1..60)) {
            let rate = Rate::new(f64::from(per_second), burst).unwrap();
            let (mut full_at, mut now, mut admitted) = (0, 5_000_000, Vec::new());
            for step in pace {
                now += step;
                let (level, after) = rate.take(full_at, now);
                full_at = after;
                if level.admitted {
                    admitted.push(now);
                    for (index, start) in admitted.iter().enumerate() {
                        let count = i64::try_from(admitted.len() - index).unwrap();
                        prop_assert!(count <= i64::from(burst) + (now - start) / rate.interval());
                    }
                } else {
                    let wait = i64::try_from(level.retry_after.as_micros()).unwrap();
                    prop_assert!(wait > 0);
                    prop_assert!(rate.take(full_at, now + wait).0.admitted && !rate.take(full_at, now + wait - 1).0.admitted);
                }
            }
        }
    }
}
