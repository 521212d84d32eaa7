//! The order in which events are published.
//!
//! Events come from this process's commits, over the carrier, and from the log itself; each is published once. Two
//! writes to one record must be published in the order of their positions. Therefore an event with a hole below it
//! waits until the hole is filled, or until the log was read after the event arrived: an earlier write to the same record
//! has committed by then, so the read returns it. Writes that the read does not return are still running and concern other
//! records.

use std::collections::BTreeMap;

use crate::EntityEvent;
use crate::bus::receipt::Hold;

use super::ledger::Ledger;

/// Limit of waiting events. When it is reached, all are released.
const MOST: usize = 65_536;
/// Bytes of their records that may wait while the log cannot be read.
const MAX_BYTES: usize = 64 << 20;

/// An event with its position, before it is published.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) position: i64,
    pub(crate) event: EntityEvent,
    pub(crate) hold: Option<Hold>,
    /// How many reads had begun when it arrived.
    reads: u64,
    /// A read has shown it.
    seen: bool,
}

/// The positions that a read queries.
#[derive(Debug)]
pub(crate) struct Read {
    number: u64,
    /// All positions from here on.
    pub(crate) from: i64,
    /// And these.
    pub(crate) holes: Vec<i64>,
    /// Positions from here on are not queried.
    until: i64,
}

/// The order of a process's events.
#[derive(Debug)]
pub(crate) struct Sequence {
    ledger: Ledger,
    /// By position.
    waiting: BTreeMap<i64, Pending>,
    reads: u64,
}

/// Events to publish now, in this order, each with the position up to which all have been.
pub(crate) type Released = Vec<(Pending, i64)>;

impl Sequence {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { ledger, waiting: BTreeMap::new(), reads: 0 }
    }

    /// Adds committed events, in their order. Returns those that have no hole below them.
    pub(crate) fn arrive(&mut self, events: impl IntoIterator<Item = (i64, EntityEvent, Option<Hold>)>) -> Released {
        for (position, event, hold) in events {
            if self.ledger.announce(position) {
                let pending = Pending { position, event, hold, reads: self.reads, seen: false };
                self.waiting.insert(position, pending);
            }
        }
        let hole = self.ledger.first_hole().filter(|_| self.waiting.len() <= MOST);
        let Some(hole) = hole else { return self.release(|_| true) };
        if self.waiting.first_key_value().is_some_and(|(first, _)| *first < hole) {
            return self.release(|pending| pending.position < hole);
        }
        Released::new()
    }

    /// Whether a read is needed for something.
    pub(crate) fn is_whole(&self) -> bool {
        self.ledger.is_whole() && self.waiting.is_empty()
    }

    /// Begins a read of the log.
    pub(crate) fn begin_read(&mut self) -> Read {
        self.reads += 1;
        let (holes, rest) = self.ledger.lowest_holes();
        Read { number: self.reads, from: self.ledger.next(), holes, until: rest.unwrap_or(i64::MAX) }
    }

    /// Adds the result of a read. `last` is the greatest position that it examined, if it stopped early.
    pub(crate) fn end_read(
        &mut self,
        read: &Read,
        shown: Vec<(i64, Option<EntityEvent>)>,
        last: Option<i64>,
    ) -> Released {
        for (position, event) in shown {
            if self.ledger.announce(position) {
                // A row without an event publishes nothing.
                let reads = self.reads;
                let pending = |event| (position, Pending { position, event, hold: None, reads, seen: true });
                self.waiting.extend(event.map(pending));
            } else if let Some(pending) = self.waiting.get_mut(&position) {
                pending.seen = true;
            }
        }
        let until = last.map_or(read.until, |last| read.until.min(last.saturating_add(1)));
        self.release(|pending| (pending.seen || pending.reads < read.number) && pending.position < until)
    }

    /// Reading the log failed. Events continue to wait for the next read; otherwise one could overtake an earlier event of its
    /// record. When [`MAX_BYTES`] are exceeded, all are released.
    pub(crate) fn fail_read(&mut self) -> Released {
        let bytes: usize = self.waiting.values().map(|pending| pending.event.record().len()).sum();
        if bytes > MAX_BYTES { self.release(|_| true) } else { Released::new() }
    }

    /// No hole below `position` will ever be filled.
    pub(crate) fn give_up_below(&mut self, position: i64) {
        self.ledger.give_up_below(position);
    }

    /// One more than the greatest position announced.
    pub(crate) fn next(&self) -> i64 {
        self.ledger.next()
    }

    pub(crate) fn first_hole(&self) -> Option<i64> {
        self.ledger.first_hole()
    }

    /// The position up to which all events have been published.
    pub(crate) fn passed(&self) -> i64 {
        let waiting = self.waiting.first_key_value().map(|(first, _)| *first);
        waiting.into_iter().chain(self.ledger.first_hole()).min().unwrap_or(self.ledger.next()) - 1
    }

    fn release(&mut self, goes: impl Fn(&Pending) -> bool) -> Released {
        let (going, waiting): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, pending)| goes(pending));
        self.waiting = waiting;
        let behind = self.passed();
        let next: Vec<i64> = going.keys().skip(1).map(|position| position - 1).collect();
        let next = next.into_iter().chain([i64::MAX]).map(|next| next.min(behind));
        going.into_values().zip(next).collect()
    }
}

#[cfg(test)]
#[path = "sequence/model.rs"]
mod model;
