//! The order in which events are published.
//!
//! Events come from this process's commits, over the carrier, and from the log itself; each is published once. Two
//! writes to one record must be published in the order of their positions. Therefore an event with a hole below it
//! waits until the hole is filled, or until the log was read after the event arrived: an earlier write to the same record
//! has committed by then, so the read returns it. Writes that the read does not return are still running and concern other
//! records.

use crate::EntityEvent;
use crate::bus::receipt::Hold;

use super::ledger::Ledger;

/// Limit of waiting events. When it is reached, all are released.
const MOST: usize = 65_536;
/// Bytes of their records that may wait while the log cannot be read.
const MOST_BYTES: usize = 64 << 20;

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
    waiting: Vec<Pending>,
    reads: u64,
}

/// Events to publish now, in this order, each with the position up to which all have been.
pub(crate) type Released = Vec<(Pending, i64)>;

impl Sequence {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { ledger, waiting: Vec::new(), reads: 0 }
    }

    /// Adds committed events, in their order. Returns those that have no hole below them.
    pub(crate) fn arrive(&mut self, events: impl IntoIterator<Item = (i64, EntityEvent, Option<Hold>)>) -> Released {
        for (position, event, hold) in events {
            if self.ledger.announce(position) {
                self.waiting.push(Pending { position, event, hold, reads: self.reads, seen: false });
            }
        }
        let hole = self.ledger.first_hole().filter(|_| self.waiting.len() <= MOST);
        let Some(hole) = hole else { return self.release(|_| true) };
        if self.waiting.iter().any(|pending| pending.position < hole) {
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
                self.waiting.extend(event.map(|event| Pending { position, event, hold: None, reads, seen: true }));
            } else if let Some(pending) = self.waiting.iter_mut().find(|pending| pending.position == position) {
                pending.seen = true;
            }
        }
        let until = last.map_or(read.until, |last| read.until.min(last.saturating_add(1)));
        self.release(|pending| (pending.seen || pending.reads < read.number) && pending.position < until)
    }

    /// Reading the log failed. Events continue to wait for the next read; otherwise one could overtake an earlier event of its
    /// record. When [`MOST_BYTES`] are exceeded, all are released.
    pub(crate) fn fail_read(&mut self) -> Released {
        let bytes: usize = self.waiting.iter().map(|pending| pending.event.record().len()).sum();
        if bytes > MOST_BYTES { self.release(|_| true) } else { Released::new() }
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
        let waiting = self.waiting.iter().map(|pending| pending.position).min();
        waiting.into_iter().chain(self.ledger.first_hole()).min().unwrap_or(self.ledger.next()) - 1
    }

    fn release(&mut self, goes: impl Fn(&Pending) -> bool) -> Released {
        let (mut going, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|pending| goes(pending));
        self.waiting = waiting;
        going.sort_by_key(|pending| pending.position);
        let behind = self.passed();
        let next: Vec<i64> = going.iter().skip(1).map(|pending| pending.position - 1).collect();
        going.into_iter().zip(next.into_iter().chain([i64::MAX])).map(|(one, next)| (one, next.min(behind))).collect()
    }
}

#[cfg(test)]
#[path = "sequence/model.rs"]
mod model;
