//! Events by which a process or a client recognizes a log that has lost its last commits.
//!
//! A database that comes back without its last commits (an asynchronous failover, a crash with `synchronous_commit =
//! off`, a restored copy) assigns the same positions again, to other events. A position alone does not reveal that. So a
//! cursor contains a witness, one event that the log must have, and each process compares the events that it has seen
//! with the log.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::EntityEvent;

/// Events that a process remembers. More than the positions that are filled while a commit is on its way to it.
const REMEMBERED: usize = 4_096;
/// The events that every comparison includes, and the most that it includes if the database did not fail.
const NEWEST: usize = 16;
const MOST: usize = 512;

/// 32 bits of the id of an event. Two events have the same with a probability of one to four billion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check(pub(super) u32);

impl Check {
    /// FNV-1a, because it must be the same in every version. An id is unique and mostly random.
    pub(crate) fn of(id: &str) -> Self {
        Self(id.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }
}

/// An event of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) position: i64,
    pub(crate) check: Check,
}

impl Witness {
    pub(crate) fn new(position: i64, id: &str) -> Self {
        Self { position, check: Check::of(id) }
    }

    /// The event itself, if it is in the log.
    pub(crate) fn of(event: &EntityEvent) -> Option<Self> {
        Some(Self::new(event.position()?, event.id()?))
    }

    /// Reads what [`fmt::Display`] wrote.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (position, check) = text.split_once(' ')?;
        Some(Self { position: position.parse().ok()?, check: Check(check.parse().ok()?) })
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.position, self.check.0)
    }
}

/// The events that this process learned of last.
#[derive(Debug, Default)]
pub(crate) struct Witnesses {
    by_position: BTreeMap<i64, Check>,
    /// The positions in the order in which the events arrived.
    arrived: VecDeque<i64>,
    /// How many arrived since the last comparison.
    uncompared: usize,
}

impl Witnesses {
    /// Remembers an event. If another one is remembered for its position, that one stays, so that the comparison finds
    /// the difference.
    pub(crate) fn note(&mut self, witness: Witness) {
        if self.by_position.contains_key(&witness.position) {
            return;
        }
        self.by_position.insert(witness.position, witness.check);
        self.arrived.push_back(witness.position);
        self.uncompared += 1;
        if self.arrived.len() > REMEMBERED
            && let Some(first) = self.arrived.pop_front()
        {
            self.by_position.remove(&first);
        }
    }

    /// The witness for a client that has everything up to `position`: the last event up to there, because an older one
    /// may be removed from the log earlier, or else the next one.
    pub(crate) fn at(&self, position: i64) -> Option<Witness> {
        let before = self.by_position.range(..=position).next_back();
        let found = before.or_else(|| self.by_position.range(position..).next())?;
        Some(Witness { position: *found.0, check: *found.1 })
    }

    /// The event at a position, if it is remembered.
    pub(crate) fn check_at(&self, position: i64) -> Option<Check> {
        self.by_position.get(&position).copied()
    }

    /// The events to compare now: what arrived since the last comparison, and a few before that. If the database failed
    /// in between, or is another server (`all`), everything that is remembered.
    pub(crate) fn take_to_compare(&mut self, all: bool) -> Vec<Witness> {
        let uncompared = std::mem::take(&mut self.uncompared).min(self.arrived.len());
        let first = if all { 0 } else { self.arrived.len().saturating_sub(uncompared + NEWEST) };
        let (count, skipped) = (self.arrived.len() - first, MOST / 2);
        let is_sampled = |at: &usize| all || count <= MOST || *at < skipped || *at >= count - skipped;
        let among = self.arrived.range(first..).enumerate().filter(|(at, _)| is_sampled(at));
        among
            .filter_map(|(_, position)| Some(Witness { position: *position, check: self.check_at(*position)? }))
            .collect()
    }

    /// The last comparison failed: the next one includes its events.
    pub(crate) fn compare_again(&mut self) {
        self.uncompared = self.arrived.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(positions: impl IntoIterator<Item = i64>) -> Witnesses {
        let mut witnesses = Witnesses::default();
        positions.into_iter().for_each(|position| witnesses.note(Witness::new(position, &format!("e{position}"))));
        witnesses
    }

    fn positions(compared: &[Witness]) -> Vec<i64> {
        compared.iter().map(|witness| witness.position).collect()
    }

    #[test]
    fn a_check_is_the_same_in_every_version() {
        assert_eq!(Check::of(""), Check(0x811c_9dc5));
        assert_eq!(Check::of("a"), Check(0xe40c_292c));
        assert_ne!(
            Check::of("01983d1e-0000-7000-8000-000000000001"),
            Check::of("01983d1e-0000-7000-8000-000000000002")
        );
        let witness = Witness::new(7, "a");
        assert_eq!(Witness::parse(&witness.to_string()), Some(witness));
    }

    #[test]
    fn the_witness_of_a_position_is_the_last_event_up_to_it_or_else_the_next() {
        let witnesses = noted([3, 9, 5]);
        for (position, expected) in [(1, 3), (3, 3), (4, 3), (8, 5), (100, 9)] {
            assert_eq!(witnesses.at(position).unwrap().position, expected, "{position}");
        }
        assert_eq!(noted([]).at(1), None);
    }

    #[test]
    fn a_comparison_includes_what_arrived_since_the_last_and_the_newest_before() {
        let mut witnesses = noted(1..=100);
        assert_eq!(positions(&witnesses.take_to_compare(false)), (1..=100).collect::<Vec<_>>());
        assert_eq!(positions(&witnesses.take_to_compare(false)), (85..=100).collect::<Vec<_>>());
        witnesses.note(Witness::new(101, "e101"));
        assert_eq!(positions(&witnesses.take_to_compare(false)), (85..=101).collect::<Vec<_>>());
        witnesses.compare_again();
        assert_eq!(witnesses.take_to_compare(false).len(), 101);
        assert_eq!(witnesses.take_to_compare(true).len(), 101);
    }

    #[test]
    fn memory_and_comparisons_are_bounded_and_an_early_position_that_arrived_late_is_kept() {
        let mut witnesses = noted((10..10_000).chain([1]));
        assert_eq!((witnesses.by_position.len(), witnesses.arrived.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(witnesses.check_at(1), Some(Check::of("e1")));
        assert_eq!(witnesses.take_to_compare(true).len(), REMEMBERED);
        witnesses.compare_again();
        let some = positions(&witnesses.take_to_compare(false));
        assert_eq!((some.len(), some[MOST - 1]), (MOST, 1));
    }

    #[test]
    fn an_event_at_a_known_position_does_not_replace_the_known_one() {
        let mut witnesses = noted([7]);
        witnesses.note(Witness::new(7, "another"));
        assert_eq!(witnesses.check_at(7), Some(Check::of("e7")));
    }
}
