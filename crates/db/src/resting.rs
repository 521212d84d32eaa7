//! Which shares rest, because they have written for long or much, while others write.
//!
//! A turn may be long, such as a batch under a rule that reads much, and it may be large: a request of a few bytes that changes
//! a large record has the whole record written again, into the log and the outbox too. After it, a share rests as long as the
//! turn took, or as long as its bytes take, while others write. So a caller whose request takes several writes (a
//! registration) waits for one such turn and not for one at each write, and a caller who writes much per request does not get
//! more than callers who write little.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::{Share, Value};

/// A turn after which a share rests.
pub(crate) const LONG: Duration = Duration::from_millis(50);
/// The same in bytes.
const LARGE: u64 = 64 << 10;
/// How long a byte takes.
const PER_BYTE: Duration = Duration::from_nanos(20);
/// The longest rest after one turn, for its bytes.
const LONGEST: Duration = Duration::from_millis(2_500);
/// How long others count as writing after a write.
const RECENT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Resting {
    /// Until when shares rest.
    until: HashMap<Share, Instant>,
    /// The latest write that came, and the latest of another share.
    came: Option<(Share, Instant)>,
    came_before: Option<(Share, Instant)>,
}

impl Resting {
    /// A share has something to write.
    pub(crate) fn came(&mut self, share: Share) {
        if self.came.is_some_and(|(latest, _)| latest != share) {
            self.came_before = self.came;
        }
        self.came = Some((share, Instant::now()));
    }

    /// A turn has ended. The program's own share never rests.
    pub(crate) fn took(&mut self, share: Share, time: Duration, bytes: u64) {
        let weight = if bytes < LARGE {
            Duration::ZERO
        } else {
            PER_BYTE.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX)).min(LONGEST)
        };
        let rest = weight.max(if time < LONG { Duration::ZERO } else { time });
        if rest.is_zero() || share == Share::default() {
            return;
        }
        if self.has_others_after(share, time) {
            let now = Instant::now();
            // Turns that ran beside each other add up.
            let rested = self.until.get(&share).map_or(now, |until| (*until).max(now));
            self.until.insert(share, (rested + rest).min(now + rest.max(LONGEST)));
        }
    }

    /// Whether another share writes.
    pub(crate) fn has_others(&self, share: Share) -> bool {
        self.has_others_after(share, Duration::ZERO)
    }

    /// Whether another share writes, as far as it could during a turn that took so long.
    fn has_others_after(&self, share: Share, time: Duration) -> bool {
        let others = [self.came, self.came_before].into_iter().flatten().find(|(other, _)| *other != share);
        others.is_some_and(|(_, at)| at.elapsed() < RECENT + time)
    }

    /// Until when a share rests, if it does.
    pub(crate) fn until(&mut self, share: Share) -> Option<Instant> {
        self.forget_rested();
        self.until.get(&share).copied()
    }

    /// When the next share has rested.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.until.values().min().copied()
    }

    /// Removes the shares that have rested.
    pub(crate) fn forget_rested(&mut self) {
        if !self.until.is_empty() {
            let now = Instant::now();
            self.until.retain(|_, until| *until > now);
        }
    }
}

/// The bytes that these parameters have written.
pub(crate) fn written(params: &[Value]) -> u64 {
    let bytes = params.iter().map(|value| match value {
        Value::Text(text) => text.len(),
        Value::Json(json) => json.as_str().len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Time(_) => 8,
    });
    bytes.sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_rests_for_its_bytes_only_while_others_write() {
        let (mut resting, [a, b]) = (Resting::default(), [1, 2].map(Share));
        resting.came(a);
        resting.took(a, Duration::ZERO, 10 << 20);
        assert!(resting.until(a).is_none(), "it writes alone");
        resting.came(b);
        resting.took(b, Duration::ZERO, LARGE - 1);
        assert!(resting.until(b).is_none(), "it has written little");
        resting.took(a, Duration::ZERO, 10 << 20);
        let one = resting.until(a).unwrap();
        assert!(one > Instant::now() + Duration::from_millis(100));
        resting.took(a, Duration::ZERO, 10 << 20);
        let two = resting.until(a).unwrap();
        assert!(two > one + Duration::from_millis(100), "they add up");
        resting.took(a, Duration::ZERO, u64::MAX);
        resting.took(a, Duration::ZERO, u64::MAX);
        assert!(resting.until(a).unwrap() <= Instant::now() + LONGEST);
        assert!(resting.next().is_some() && resting.until(b).is_none());
        resting.took(Share::default(), LONG, u64::MAX);
        assert!(resting.until(Share::default()).is_none());
    }
}
