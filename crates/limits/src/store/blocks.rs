use std::collections::HashMap;
use std::time::Duration;

use crate::lock::Lock;
use gatewright_base::Ambient;
use jiff::Timestamp;

use crate::Key;

/// Blocks that a shared backend reported recently.
///
/// Otherwise a client that keeps trying a blocked key would make the backend lock and write one row for every request.
/// Entries are valid for [`Blocks::BELIEVED`], so that such a key costs one round trip a second, and a key that another
/// replica unblocked is open again within that time.
pub(super) struct Blocks {
    ambient: Ambient,
    seen: Lock<Seen>,
}

#[derive(Default)]
struct Seen {
    reports: HashMap<Key, Report>,
    cleaned_at: Option<Timestamp>,
}

struct Report {
    at: Timestamp,
    retry_after: Duration,
}

impl Blocks {
    /// How long a report is believed.
    const BELIEVED: Duration = Duration::from_secs(1);
    const MOST: usize = 10_000;

    pub(super) fn new(ambient: Ambient) -> Self {
        Self { ambient, seen: Lock::default() }
    }

    /// The remaining time of the block of `key`, if a report of it is recent enough.
    pub(super) fn remaining(&self, key: &Key) -> Option<Duration> {
        let now = self.ambient.now();
        let seen = self.seen.lock();
        let report = seen.reports.get(key)?;
        let left = report.retry_after.checked_sub(age(report.at, now)?)?;
        (!left.is_zero()).then_some(left)
    }

    /// Notes that `key` is blocked for `retry_after` from now on.
    pub(super) fn note(&self, key: &Key, retry_after: Duration) {
        let now = self.ambient.now();
        let mut seen = self.seen.lock();
        // All entries are scanned only once a second; until then, the backend answers for keys that do not fit.
        let just_cleaned = seen.cleaned_at.is_some_and(|at| age(at, now).is_some());
        if seen.reports.len() >= Self::MOST && !just_cleaned {
            seen.reports.retain(|_, report| age(report.at, now).is_some());
            seen.cleaned_at = Some(now);
        }
        if seen.reports.len() < Self::MOST {
            seen.reports.insert(key.clone(), Report { at: now, retry_after });
        }
    }

    pub(super) fn forget(&self, key: &Key) {
        self.seen.lock().reports.remove(key);
    }
}

/// The time since `at`; `None` if that is too long, or if `at` is in the future.
fn age(at: Timestamp, now: Timestamp) -> Option<Duration> {
    let age = Duration::try_from(now.duration_since(at)).ok()?;
    (age < Blocks::BELIEVED).then_some(age)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_report_is_believed_for_a_second_and_counts_down() {
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let (blocks, key) = (Blocks::new(ambient), Key::new("s", "k"));
        blocks.note(&key, Duration::from_mins(1));
        clock.advance(SignedDuration::from_millis(900));
        assert_eq!(blocks.remaining(&key), Some(Duration::from_millis(59_100)));
        assert_eq!(blocks.remaining(&Key::new("s", "other")), None);
        clock.advance(SignedDuration::from_millis(100));
        assert_eq!(blocks.remaining(&key), None);
        clock.advance(SignedDuration::from_secs(-60));
        assert_eq!(blocks.remaining(&key), None, "the clock was set back");
    }

    #[test]
    fn a_block_that_ends_within_the_second_is_not_prolonged() {
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let (blocks, key) = (Blocks::new(ambient), Key::new("s", "k"));
        blocks.note(&key, Duration::from_millis(300));
        clock.advance(SignedDuration::from_millis(300));
        assert_eq!(blocks.remaining(&key), None);
    }

    #[test]
    fn the_number_of_entries_is_limited() {
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let blocks = Blocks::new(ambient);
        for n in 0..Blocks::MOST * 2 {
            blocks.note(&Key::new("s", &n.to_string()), Duration::from_mins(1));
        }
        assert_eq!(blocks.seen.lock().reports.len(), Blocks::MOST);
        clock.advance(SignedDuration::from_secs(2));
        blocks.note(&Key::new("s", "fresh"), Duration::from_mins(1));
        assert_eq!(blocks.seen.lock().reports.len(), 1);
    }
}
