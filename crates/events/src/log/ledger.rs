//! The positions of the log that were announced in this process.
//!
//! A position is assigned when a row is written, but the row is visible only after its transaction has committed: rows
//! appear out of order, and some never. A hole is a position below an announced one that was not announced itself: its
//! transaction is still running, or ended without a commit, or its notification has not arrived yet. Everything below
//! the first hole has been announced. So a client's position must not be beyond the first hole.

use std::collections::BTreeMap;

/// Holes that are looked up one by one. There are as many as running transactions and, for a moment, failed ones.
pub(super) const LOOKED_UP: usize = 500;

/// The positions that were announced.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ledger {
    /// One more than the greatest position announced.
    next: i64,
    /// Ranges of holes: the first, and one more than the last.
    holes: BTreeMap<i64, i64>,
}

impl Ledger {
    /// Nothing after `position` was announced.
    pub(crate) fn after(position: i64) -> Self {
        Self { next: position + 1, holes: BTreeMap::new() }
    }

    /// Notes a position. `false` if it was announced before.
    pub(crate) fn announce(&mut self, position: i64) -> bool {
        if position >= self.next {
            if position > self.next {
                self.holes.insert(self.next, position);
            }
            self.next = position + 1;
            return true;
        }
        let Some((&start, &end)) = self.holes.range(..=position).next_back() else { return false };
        if position >= end {
            return false;
        }
        self.holes.remove(&start);
        for (start, end) in [(start, position), (position + 1, end)] {
            if start < end {
                self.holes.insert(start, end);
            }
        }
        true
    }

    /// No hole below `position` will ever be filled.
    pub(crate) fn give_up_below(&mut self, position: i64) {
        let above = self.holes.split_off(&position);
        let across = self.holes.values().next_back().copied().filter(|end| *end > position);
        self.holes = above;
        if let Some(end) = across {
            self.holes.insert(position, end);
        }
    }

    /// No position up to this one will be announced any more. Returns whether there were some that had not been.
    pub(crate) fn skip(&mut self, to: i64) -> bool {
        let is_skipped = to >= self.next || self.first_hole().is_some_and(|hole| hole <= to);
        self.give_up_below(to.saturating_add(1));
        self.next = self.next.max(to.saturating_add(1));
        is_skipped
    }

    /// One more than the greatest position announced.
    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    pub(crate) fn first_hole(&self) -> Option<i64> {
        self.holes.keys().next().copied()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.holes.is_empty()
    }

    /// The lowest holes, and the first one that is not among them.
    pub(crate) fn lowest_holes(&self) -> (Vec<i64>, Option<i64>) {
        let mut holes = self.holes.iter().flat_map(|(start, end)| *start..*end);
        let lowest = holes.by_ref().take(LOOKED_UP).collect();
        (lowest, holes.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_open_shrink_split_and_close() {
        let mut ledger = Ledger::after(10);
        assert!(ledger.is_whole());
        assert!(ledger.announce(11));
        assert!(!ledger.announce(11) && !ledger.announce(3));
        assert!(ledger.announce(17));
        assert_eq!(ledger.lowest_holes(), (vec![12, 13, 14, 15, 16], None));
        assert!(ledger.announce(14) && !ledger.announce(14));
        assert_eq!(ledger.lowest_holes().0, [12, 13, 15, 16]);
        assert!(ledger.announce(12));
        assert_eq!((ledger.first_hole(), ledger.next()), (Some(13), 18));
        ledger.give_up_below(16);
        assert_eq!(ledger.lowest_holes().0, [16]);
        assert!(!ledger.announce(15), "what was given up counts as announced");
        ledger.give_up_below(18);
        assert!(ledger.is_whole());
    }

    #[test]
    fn skipped_positions_are_no_holes_and_later_holes_stay() {
        let mut ledger = Ledger::after(10);
        assert!(ledger.announce(12));
        assert!(!ledger.skip(10), "it was announced");
        assert!(ledger.skip(11));
        assert!(!ledger.skip(12));
        assert!(ledger.announce(16));
        // A read shows 16, and that all up to 20 was removed.
        assert!(ledger.skip(20));
        assert_eq!((ledger.next(), ledger.is_whole()), (21, true));
        assert!(!ledger.announce(15));
        assert!(ledger.announce(30));
        assert!(ledger.skip(25));
        assert_eq!((ledger.lowest_holes(), ledger.next()), ((vec![26, 27, 28, 29], None), 31));
    }

    #[test]
    fn many_holes_are_a_range_and_are_looked_up_in_parts() {
        let mut ledger = Ledger::after(0);
        ledger.announce(1_000_000_000);
        assert_eq!(ledger.holes.len(), 1);
        let (lowest, rest) = ledger.lowest_holes();
        assert_eq!((lowest.len(), rest), (LOOKED_UP, Some(501)));
    }
}
