use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gatewright_base::{Budget, Identity, JsonCase, Lease, OverBudget};
use parking_lot::Mutex;

use super::condition::Condition;
use super::frame;
use super::ring::{CAPACITY, End, Ring};
use super::seat::{Name, Seat};
use super::subscribe::{Admit, Filter, Recheck, Visibility};
use super::tables::Tables;
use super::ticks::{CONFIRMED_FOR, RECHECK_EVERY, TICKS};
use super::view::RecordView;
use crate::bus::receipt::{BlockingSeat, Hold};
use crate::log::page::BESIDE;
use crate::{Cursor, EntityEvent};

/// One open stream.
pub(super) struct Subscriber {
    pub(super) id: u64,
    /// Under which its seat is listed.
    pub(super) table: Arc<str>,
    pub(super) tables: Tables,
    pub(super) caller: Identity,
    pub(super) name: Option<Name>,
    pub(super) seat: Seat,
    /// The client requested that writers wait for it, and is allowed to.
    pub(super) blocks: bool,
    pub(super) condition: Option<Condition>,
    pub(super) ring: Ring,
    pub(super) filter: Mutex<Filter>,
    pub(super) recheck: Option<Recheck>,
    pub(super) admit: Option<Admit>,
    /// Records carry their entity tags.
    pub(super) tags: bool,
    /// What it shows of the records of these tables, instead of all.
    pub(super) views: Vec<(Arc<str>, RecordView)>,
    /// The stream's progress in the log, if there is one.
    pub(super) progress: Option<Mutex<Progress>>,
    /// As long as they exist, writers to the tables wait for this stream. Dropped when the stream ends.
    pub(super) blocking: Mutex<Vec<BlockingSeat>>,
    /// Another stream has taken this one's seat. Written and read under the registry's lock.
    pub(super) seatless: AtomicBool,
    pub(super) due: Due,
}

/// When a stream's next heartbeat and re-check are, in ticks of the broker's clock.
#[derive(Default)]
pub(super) struct Due {
    pub(super) beat: AtomicU64,
    pub(super) recheck: AtomicU64,
    /// When the caller's right was last confirmed.
    pub(super) confirmed: AtomicU64,
    /// The tick of its bucket in the wheel. Written and read under the registry's lock.
    pub(super) bucket: AtomicU64,
    pub(super) checking: AtomicBool,
}

/// What an event's frames take their memory from.
pub(super) enum Memory {
    /// An event that was just published: its frames are taken from a budget while streams have them.
    Live(Budget),
    /// An event of a page of the log: the page has taken the bytes.
    Page(Arc<Lease>),
}

/// The holder of all frames of events that were just published. So all of them together have one holder's share, and streams
/// that do not read leave the rest to others.
const HOLDER: &str = "event streams";
/// Bytes of a record whose frame is not taken from the budget. The number of streams limits their sum.
const FREE: usize = 1 << 10;

/// A frame that keeps its lease until the last connection has sent it.
struct Leased {
    bytes: Bytes,
    _lease: Arc<Lease>,
}

impl AsRef<[u8]> for Leased {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An event for streams, with everything that is computed only once.
pub(super) struct Outgoing {
    pub(super) event: Arc<EntityEvent>,
    case: JsonCase,
    cursor: Option<Cursor>,
    memory: Memory,
    frame: OnceLock<Bytes>,
    tagged: OnceLock<Bytes>,
    /// The frames of views, by their keys, with tags and without.
    seen: Mutex<HashMap<(String, bool), Bytes>>,
    /// For callers who may no longer read the record.
    left: OnceLock<Bytes>,
    /// The results of conditions, by their ids.
    answers: Mutex<HashMap<u64, bool>>,
}

impl Outgoing {
    pub(super) fn new(event: Arc<EntityEvent>, case: JsonCase, memory: Memory) -> Self {
        let cursor = event.cursor();
        let (frame, tagged, left) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { event, case, cursor, memory, frame, tagged, seen: Mutex::default(), left, answers: Mutex::default() }
    }

    /// The generation of the log to which its position belongs.
    fn generation(&self) -> Option<u64> {
        let generation = self.event.generation().filter(|_| self.event.position().is_some());
        generation.map(|generation| generation.number)
    }

    /// The frame for streams with entity tags, or for those without. Fails if there is no memory for it.
    pub(super) fn frame(&self, tags: bool) -> Result<Bytes, OverBudget> {
        let frame = if tags { &self.tagged } else { &self.frame };
        if let Some(frame) = frame.get() {
            return Ok(frame.clone());
        }
        let made = self.encode(&self.event, tags)?;
        Ok(frame.get_or_init(|| made).clone())
    }

    /// The frame for streams with this view. Views are as many as there are sets of rights, so that few are kept.
    fn frame_of(&self, view: &RecordView, tags: bool) -> Result<Bytes, OverBudget> {
        let key = (view.key().to_owned(), tags);
        if let Some(frame) = self.seen.lock().get(&key) {
            return Ok(frame.clone());
        }
        let made = self.encode(&view.of(&self.event), tags)?;
        Ok(self.seen.lock().entry(key).or_insert(made).clone())
    }

    fn encode(&self, event: &EntityEvent, tags: bool) -> Result<Bytes, OverBudget> {
        let encoded = || frame::encode(event, self.case, self.cursor.as_ref(), tags);
        let lease = match &self.memory {
            Memory::Page(lease) => lease.clone(),
            Memory::Live(_) if event.record().len() <= FREE => return Ok(encoded()),
            Memory::Live(budget) => {
                let mut lease = budget.lease(Some(HOLDER));
                lease.grow_undivided(event.record().len() + BESIDE)?;
                Arc::new(lease)
            }
        };
        Ok(Bytes::from_owner(Leased { bytes: encoded(), _lease: lease }))
    }

    /// The frame for a stream with this visibility of the event, if it gets one.
    fn frame_for(&self, visibility: Visibility, subscriber: &Subscriber) -> Result<Option<Bytes>, OverBudget> {
        match visibility {
            Visibility::Shown => match subscriber.view_of(self.event.table()) {
                Some(view) => self.frame_of(view, subscriber.tags).map(Some),
                None => self.frame(subscriber.tags).map(Some),
            },
            Visibility::Left => Ok(Some(
                self.left
                    .get_or_init(|| frame::encode(&self.event.left(), self.case, self.cursor.as_ref(), false))
                    .clone(),
            )),
            Visibility::Hidden | Visibility::Unknown => Ok(None),
        }
    }

    fn meets(&self, condition: &Condition) -> bool {
        if let Some(answer) = self.answers.lock().get(&condition.id()) {
            return *answer;
        }
        let answer = condition.holds(&self.event);
        self.answers.lock().insert(condition.id(), answer);
        answer
    }
}

/// Positions that a stream remembers one by one. Past that, it may get some again when it falls behind.
const MOST_ABOVE: usize = 4_096;

/// How far a stream is in the log.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The generation of the log to which the positions belong.
    pub(super) generation: u64,
    /// Every event up to here was offered.
    pub(super) passed: i64,
    /// And these. At most as many as there are running transactions.
    pub(super) above: BTreeSet<i64>,
    /// It gets its events from the log.
    pub(super) behind: bool,
    /// Events were published while it was behind.
    pub(super) missed: bool,
    /// Missed events that are not in the log, because the program published them itself.
    pub(super) unlogged: VecDeque<Bytes>,
}

impl Progress {
    pub(super) fn has(&self, position: i64) -> bool {
        position <= self.passed || self.above.contains(&position)
    }

    /// Notes an event that was offered, when all up to `passed` have been.
    pub(super) fn note(&mut self, position: i64, passed: i64) {
        self.passed = self.passed.max(passed);
        if position > self.passed {
            self.above.insert(position);
        }
        self.settle();
        if self.above.len() > MOST_ABOVE {
            self.above.pop_first();
        }
    }

    fn note_if(&mut self, position: Option<i64>, outgoing: &Outgoing) {
        if let Some(position) = position.filter(|position| !self.has(*position)) {
            self.note(position, outgoing.event.passed());
        }
    }

    /// Keeps an event that is not in the log, and returns how many were dropped for it.
    fn keep(&mut self, frame: Bytes) -> u64 {
        self.unlogged.push_back(frame);
        if self.unlogged.len() <= CAPACITY {
            return 0;
        }
        self.unlogged.pop_front();
        1
    }

    pub(super) fn pass(&mut self, position: i64) {
        self.passed = self.passed.max(position);
        self.settle();
    }

    fn settle(&mut self) {
        if self.above.first().is_some_and(|first| *first <= self.passed) {
            self.above = self.above.split_off(&(self.passed + 1));
        }
    }
}

/// The result of an offer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// This many older events were dropped for it.
    Queued { dropped: u64 },
    /// The buffer is full: from now on the stream gets its events from the log.
    FellBehind,
}

/// A filter panicked.
#[derive(Debug)]
pub(super) struct BadFilter;

impl Subscriber {
    /// Queues the events that the caller may see and requested, and returns how many older ones were dropped. `holds`
    /// are those of the events, or empty.
    pub(super) fn offer(&self, events: &[Outgoing], holds: &[Option<Hold>]) -> Result<Offered, BadFilter> {
        if let Some(progress) = &self.progress {
            return self.offer_logged(events, holds, &mut progress.lock());
        }
        let filter = self.filter.lock().clone();
        let matching = std::panic::catch_unwind(AssertUnwindSafe(|| -> Vec<_> {
            let carried = events.iter().enumerate().filter(|(_, outgoing)| self.tables.has(outgoing.event.table()));
            let wanted = carried.filter_map(|(at, outgoing)| {
                let frame = outgoing.frame_for(self.asked(filter(&outgoing.event), outgoing), self);
                Some((frame.transpose()?, holds.get(at).cloned().flatten()))
            });
            wanted.collect()
        }));
        let Ok(matching) = matching else { return Err(BadFilter) };
        let wanted = matching.len();
        let frames: Vec<_> = matching.into_iter().filter_map(|(frame, hold)| Some((frame.ok()?, hold))).collect();
        // For those there is no memory.
        let lost = (wanted - frames.len()) as u64;
        Ok(Offered::Queued { dropped: lost + if frames.is_empty() { 0 } else { self.ring.push(frames) } })
    }

    fn offer_logged(
        &self,
        events: &[Outgoing],
        holds: &[Option<Hold>],
        progress: &mut Progress,
    ) -> Result<Offered, BadFilter> {
        let (mut fell_behind, mut dropped) = (false, 0);
        let filter = self.filter.lock().clone();
        for (at, outgoing) in events.iter().enumerate() {
            if !self.tables.has(outgoing.event.table()) {
                continue;
            }
            let position = outgoing.event.position();
            if let (true, Some(_)) = (progress.behind, position) {
                progress.missed = true;
                continue;
            }
            match outgoing.generation().map_or(Equal, |generation| generation.cmp(&progress.generation)) {
                Equal => {}
                // It got `gap` after this event.
                Less => continue,
                Greater => {
                    fell_behind |= !std::mem::replace(&mut progress.behind, true);
                    progress.missed = true;
                    continue;
                }
            }
            if position.is_some_and(|position| progress.has(position)) {
                continue;
            }
            let visibility = self.visibility(&filter, outgoing)?;
            match (visibility, position) {
                (Visibility::Shown | Visibility::Left, _) => {}
                // It is in the log, and the database can decide.
                (Visibility::Unknown, Some(_)) => {
                    fell_behind |= !std::mem::replace(&mut progress.behind, true);
                    continue;
                }
                (Visibility::Hidden | Visibility::Unknown, _) => {
                    progress.note_if(position, outgoing);
                    continue;
                }
            }
            let hold = holds.get(at).cloned().flatten();
            let frame = match outgoing.frame_for(visibility, self) {
                Ok(Some(frame)) => frame,
                Ok(None) => continue,
                // There is no memory for it: like a full buffer.
                Err(_over) if position.is_some() => {
                    fell_behind |= !std::mem::replace(&mut progress.behind, true);
                    continue;
                }
                Err(_over) => {
                    dropped += 1;
                    continue;
                }
            };
            if progress.behind || !self.ring.try_push(frame.clone(), hold) {
                fell_behind |= !std::mem::replace(&mut progress.behind, true);
                if position.is_none() {
                    dropped += progress.keep(frame);
                }
                continue;
            }
            progress.note_if(position, outgoing);
        }
        Ok(if fell_behind { Offered::FellBehind } else { Offered::Queued { dropped } })
    }

    /// The visibility of the event for the caller, by their current rights. Also hidden if they did not request it.
    pub(super) fn wants(&self, outgoing: &Outgoing) -> Result<Visibility, BadFilter> {
        let filter = self.filter.lock().clone();
        self.visibility(&filter, outgoing)
    }

    fn visibility(&self, filter: &Filter, outgoing: &Outgoing) -> Result<Visibility, BadFilter> {
        let visibility = || self.asked(filter(&outgoing.event), outgoing);
        std::panic::catch_unwind(AssertUnwindSafe(visibility)).map_err(|_panic| BadFilter)
    }

    /// The frame for an event that was admitted with this visibility. If the stream has no admission, its filter decides.
    pub(super) fn admitted(&self, visibility: Visibility, outgoing: &Outgoing) -> Result<Option<Bytes>, BadFilter> {
        let visibility = if self.admit.is_none() {
            self.wants(outgoing)?
        } else {
            let asked = || self.asked(visibility, outgoing);
            std::panic::catch_unwind(AssertUnwindSafe(asked)).map_err(|_panic| BadFilter)?
        };
        // The page has the memory for its frames.
        Ok(outgoing.frame_for(visibility, self).unwrap_or_default())
    }

    /// Applies the client's condition to a visibility. An event that says a record has left is sent without testing the condition: the
    /// result would reveal the record's contents.
    fn asked(&self, visibility: Visibility, outgoing: &Outgoing) -> Visibility {
        match visibility {
            Visibility::Shown | Visibility::Unknown if !self.meets_condition(outgoing) => Visibility::Hidden,
            visibility => visibility,
        }
    }

    fn view_of(&self, table: &str) -> Option<&RecordView> {
        self.views.iter().find(|(of, _)| **of == *table).map(|(_, view)| view)
    }

    fn meets_condition(&self, outgoing: &Outgoing) -> bool {
        self.condition.as_ref().is_none_or(|condition| outgoing.meets(condition))
    }

    /// Ends the stream; its seat is released when its connection lets go of the body.
    pub(super) fn end(&self, end: End) {
        self.ring.end(end);
        self.blocking.lock().clear();
    }

    /// The tick of its next heartbeat or check.
    pub(super) fn next_due(&self) -> u64 {
        let beat = self.due.beat.load(Ordering::Relaxed);
        if self.recheck.is_none() {
            return beat;
        }
        let doubtful = self.due.confirmed.load(Ordering::Acquire) + CONFIRMED_FOR;
        beat.min(self.due.recheck.load(Ordering::Relaxed)).min(doubtful)
    }
}

impl Due {
    /// Of the stream with this id, opened now. The first heartbeat and re-check depend on the id, so that streams that
    /// were opened together, for example after a restart, are not checked together.
    pub(super) fn first(now: u64, id: u64) -> Self {
        Self {
            beat: (now + TICKS - id % TICKS).into(),
            recheck: (now + RECHECK_EVERY - id % RECHECK_EVERY).into(),
            confirmed: now.into(),
            ..Self::default()
        }
    }
}
