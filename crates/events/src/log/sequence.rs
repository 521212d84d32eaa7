//! The order in which events are published.
//!
//! Events come from this process's commits, over the carrier, and from the log itself; each is published once. Two
//! writes to one record must be published in the order of their positions. Therefore an event with a hole below it
//! waits until the hole is filled, or until the log was read after the event arrived: an earlier write to the same record
//! has committed by then, so the read returns it. Writes that the read does not return are still running and concern other
//! records.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::EntityEvent;
use crate::bus::receipt::Hold;

use super::generation::Generation;
use super::ledger::Ledger;
use super::witness::{Witness, Witnesses};

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
#[derive(Debug, Clone)]
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
    witnesses: Witnesses,
    generation: Arc<Generation>,
    /// Bytes that the log may grow by before its oldest events go.
    room: u64,
    /// The log has no more room.
    full: Arc<Notify>,
}

/// Events to publish now, in this order, each with the position up to which all have been.
pub(crate) type Released = Vec<(Pending, i64)>;

impl Sequence {
    pub(crate) fn new(ledger: Ledger, witnesses: Witnesses, generation: Arc<Generation>) -> Self {
        let (waiting, full) = (BTreeMap::new(), Arc::default());
        Self { ledger, waiting, reads: 0, witnesses, generation, room: u64::MAX, full }
    }

    /// Wakes a task when the log has no more room.
    pub(super) fn full(&self) -> Arc<Notify> {
        self.full.clone()
    }

    /// The bytes of the log are being counted: those that arrive meanwhile are told apart.
    pub(super) fn begin_count(&mut self) {
        self.room = u64::MAX;
    }

    /// The log may grow by `bytes` from when its bytes were counted.
    pub(super) fn end_count(&mut self, bytes: u64) {
        let arrived = u64::MAX - self.room;
        self.room = bytes.saturating_sub(arrived);
        if self.room == 0 {
            self.full.notify_one();
        }
    }

    /// Counts an event that is new in the log.
    fn count(&mut self, event: &EntityEvent) {
        let bytes = super::sweep::size(event.record().len(), event.before().map_or(0, str::len));
        let left = self.room.saturating_sub(bytes);
        if left == 0 && self.room > 0 {
            self.full.notify_one();
        }
        self.room = left;
    }

    /// All positions up to `swept`, the last event that was removed from the log, are of no interest any more. Returns whether
    /// this process has not seen some of them.
    pub(crate) fn skip(&mut self, swept_to: i64, swept: Option<Witness>) -> bool {
        let is_skipped = self.ledger.skip(swept_to);
        if is_skipped {
            self.note(swept);
        }
        is_skipped
    }

    /// Begins a new generation. Waiting events of the earlier one are not published: what the log still has of them is
    /// among the positions of `ledger`.
    pub(crate) fn renew(&mut self, ledger: Ledger, witnesses: Witnesses, generation: Arc<Generation>) {
        let (reads, room, full) = (self.reads, self.room, self.full.clone());
        *self = Self { reads, room, full, ..Self::new(ledger, witnesses, generation) };
    }

    /// Adds committed events, in their order. Returns those that have no hole below them. An event whose write began in
    /// an earlier generation is ignored: if the log has it, a read shows it.
    pub(crate) fn arrive(&mut self, events: impl IntoIterator<Item = (i64, EntityEvent, Option<Hold>)>) -> Released {
        for (position, event, hold) in events {
            if event.generation().is_some_and(|generation| generation.number != self.generation.number) {
                continue;
            }
            self.note(Witness::of(&event));
            if self.ledger.announce(position) {
                self.count(&event);
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
                if let Some(event) = &event {
                    self.count(event);
                }
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

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// The events to compare with the log.
    pub(crate) fn witnesses(&mut self) -> &mut Witnesses {
        &mut self.witnesses
    }

    /// Remembers an event that a read has shown, or that has arrived.
    pub(crate) fn note(&mut self, witness: Option<Witness>) {
        if let Some(witness) = witness {
            self.witnesses.note(witness);
        }
    }

    pub(crate) fn witness_at(&self, position: i64) -> Option<Witness> {
        self.witnesses.at(position)
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
        let mark = |(mut pending, passed): (Pending, i64)| {
            let own = Witness::of(&pending.event).filter(|own| own.position > passed);
            pending.event.set_passed(passed, own.or_else(|| self.witness_at(passed)), &self.generation);
            (pending, passed)
        };
        going.into_values().zip(next).map(mark).collect()
    }
}

#[cfg(test)]
#[path = "sequence/model.rs"]
mod model;
