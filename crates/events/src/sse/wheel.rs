use std::collections::HashMap;

/// The number of future ticks with their own bucket. Larger than any wait of a stream.
const BUCKETS: u8 = 32;

/// A timer wheel: one bucket for each future tick, with the items that are due then. A turn touches only the due items.
pub(super) struct Wheel<T> {
    buckets: [HashMap<u64, T>; BUCKETS as usize],
    /// The last tick whose bucket was emptied.
    turned: u64,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| HashMap::new()), turned: 0 }
    }
}

impl<T> Wheel<T> {
    /// Adds `item` for the tick `due`: for the next one if that is past, and for the last bucket if it is too far in
    /// the future. Returns that tick.
    pub(super) fn put(&mut self, due: u64, id: u64, item: T) -> u64 {
        let due = due.clamp(self.turned + 1, self.turned + u64::from(BUCKETS));
        self.bucket(due).insert(id, item);
        due
    }

    /// Removes the item `id` that was added for the tick `due`.
    pub(super) fn take(&mut self, due: u64, id: u64) -> Option<T> {
        self.bucket(due).remove(&id)
    }

    /// Advances to the tick `now`, including skipped ticks. Returns the due items.
    pub(super) fn turn(&mut self, now: u64) -> Vec<T> {
        let mut due = Vec::new();
        let passed = now.saturating_sub(self.turned).min(BUCKETS.into());
        for tick in now - passed..now {
            due.extend(std::mem::take(self.bucket(tick + 1)).into_values());
        }
        self.turned = self.turned.max(now);
        due
    }

    fn bucket(&mut self, tick: u64) -> &mut HashMap<u64, T> {
        &mut self.buckets[usize::try_from(tick % u64::from(BUCKETS)).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: u64 = super::BUCKETS as u64;

    fn turned(wheel: &mut Wheel<char>, now: u64) -> String {
        let mut items = wheel.turn(now);
        items.sort_unstable();
        items.into_iter().collect()
    }

    #[test]
    fn each_item_is_due_once_at_its_tick() {
        let mut wheel = Wheel::default();
        for (due, id, item) in [(1, 1, 'a'), (3, 2, 'b'), (3, 3, 'c'), (BUCKETS, 4, 'd')] {
            assert_eq!(wheel.put(due, id, item), due);
        }
        for (now, expected) in [(1, "a"), (2, ""), (3, "bc"), (3, ""), (BUCKETS - 1, ""), (BUCKETS, "d"), (99, "")] {
            assert_eq!(turned(&mut wheel, now), expected, "{now}");
        }
    }

    #[test]
    fn missed_items_are_due_late_and_past_or_distant_ones_are_not_lost() {
        let mut wheel = Wheel::default();
        wheel.put(5, 1, 'a');
        wheel.put(20, 2, 'b');
        assert_eq!(turned(&mut wheel, 1_000), "ab");
        assert_eq!(wheel.put(7, 3, 'c'), 1_001, "never in a bucket that has been");
        assert_eq!(wheel.put(9_999, 4, 'd'), 1_000 + BUCKETS);
        assert_eq!(turned(&mut wheel, 1_001), "c");
        assert_eq!(turned(&mut wheel, 900), "", "time does not go back");
        assert_eq!(turned(&mut wheel, 1_000 + BUCKETS), "d");
    }

    #[test]
    fn a_removed_item_is_not_due() {
        let mut wheel = Wheel::default();
        let due = wheel.put(3, 1, 'a');
        wheel.put(3, 2, 'b');
        assert_eq!(wheel.take(due, 1), Some('a'));
        assert_eq!(wheel.take(due, 1), None);
        assert_eq!(turned(&mut wheel, 3), "b");
    }
}
