use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;

use super::Requester;

/// How many callers may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    /// Hashes computed at the same time.
    pub(super) workers: NonZeroUsize,
    /// Hashes of one requester computed at the same time.
    pub(super) workers_per_requester: NonZeroUsize,
    /// Callers waiting, over all requesters that are strangers.
    pub(super) strangers: usize,
    /// Callers waiting, over all known requesters.
    pub(super) known: usize,
    /// Callers of one requester waiting.
    pub(super) waiting_per_requester: usize,
}

/// The queues of all requesters, served in rotation. Known requesters and strangers have a line each, and the lines take
/// turns: a flood of strangers neither takes the places of known requesters nor delays them by more than one hash each. No
/// clock and no locks.
#[derive(Debug)]
pub(super) struct Turns<T> {
    capacity: Capacity,
    idle: usize,
    /// Hashes that are computed, of each requester that has one.
    computing: HashMap<Requester, usize>,
    strangers: Line<T>,
    known: Line<T>,
    /// Which line had the last turn.
    last_was_known: bool,
    last_ticket: u64,
}

/// The queues of one kind of requesters.
#[derive(Debug)]
struct Line<T> {
    capacity: usize,
    waiting: usize,
    queues: HashMap<Requester, VecDeque<(u64, T)>>,
    /// The requesters that have a queue, the next in turn first.
    rotation: VecDeque<Requester>,
}

/// The result for a new caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The caller has an idle worker, until [`Turns::next`].
    Now,
    /// The caller waits. The ticket is for [`Turns::leave`].
    Queued(u64),
    /// The requester's queue is full, or its line is full and no queue of it is longer than the requester's.
    Refused,
}

impl<T> Turns<T> {
    pub(super) fn new(capacity: Capacity) -> Self {
        let (strangers, known) = (Line::new(capacity.strangers), Line::new(capacity.known));
        let (idle, computing) = (capacity.workers.get(), HashMap::new());
        Self { capacity, idle, computing, strangers, known, last_was_known: false, last_ticket: 0 }
    }

    /// Adds `caller`. If its line is full, a requester with a short queue displaces the last caller of the longest
    /// queue, who is returned.
    pub(super) fn admit(&mut self, requester: Requester, caller: T) -> (Admission, Option<T>) {
        if self.may_begin(requester) {
            self.begin(requester);
            return (Admission::Now, None);
        }
        let (ticket, most) = (self.last_ticket + 1, self.capacity.waiting_per_requester);
        let line = self.line(requester);
        let own = line.queues.get(&requester).map_or(0, VecDeque::len);
        if own >= most {
            return (Admission::Refused, None);
        }
        let mut displaced = None;
        if line.waiting >= line.capacity {
            let longest = line.queues.iter().max_by_key(|(_, queue)| queue.len());
            let Some(longest) = longest.filter(|(_, queue)| queue.len() > own + 1).map(|(requester, _)| *requester)
            else {
                return (Admission::Refused, None);
            };
            displaced = line.queues.get_mut(&longest).and_then(VecDeque::pop_back).map(|(_, caller)| caller);
            line.waiting -= 1;
        }
        line.push(requester, ticket, caller);
        self.last_ticket = ticket;
        (Admission::Queued(ticket), displaced)
    }

    /// Ends a hash of `done`, and begins the one of the next caller, who is returned with its requester. `None`: no
    /// caller waits, or only requesters that have all of their workers; the worker is idle.
    pub(super) fn next(&mut self, done: Requester) -> Option<(Requester, T)> {
        self.end(done);
        let known_first = !self.last_was_known;
        let (known, requester) = [known_first, !known_first].into_iter().find_map(|known| {
            let line = if known { &self.known } else { &self.strangers };
            let next = line.rotation.iter().find(|requester| self.may_begin(**requester));
            next.map(|requester| (known, *requester))
        })?;
        self.last_was_known = known;
        let caller = self.line(requester).take(requester)?;
        self.begin(requester);
        Some((requester, caller))
    }

    fn line(&mut self, requester: Requester) -> &mut Line<T> {
        if requester.is_known() { &mut self.known } else { &mut self.strangers }
    }

    fn may_begin(&self, requester: Requester) -> bool {
        let computing = self.computing.get(&requester).copied().unwrap_or(0);
        self.idle > 0 && computing < self.capacity.workers_per_requester.get()
    }

    fn begin(&mut self, requester: Requester) {
        self.idle -= 1;
        *self.computing.entry(requester).or_default() += 1;
    }

    fn end(&mut self, requester: Requester) {
        self.idle += 1;
        if let Entry::Occupied(mut computing) = self.computing.entry(requester) {
            *computing.get_mut() -= 1;
            if *computing.get() == 0 {
                computing.remove();
            }
        }
    }

    /// Removes a waiting caller and returns it; `None` if it is no longer in the queue.
    pub(super) fn leave(&mut self, requester: Requester, ticket: u64) -> Option<T> {
        let line = self.line(requester);
        let queue = line.queues.get_mut(&requester)?;
        let index = queue.iter().position(|(queued, _)| *queued == ticket)?;
        let (_, caller) = queue.remove(index)?;
        line.waiting -= 1;
        if queue.is_empty() {
            line.queues.remove(&requester);
            line.rotation.retain(|queued| *queued != requester);
        }
        Some(caller)
    }

    /// How many callers wait.
    pub(super) fn waiting(&self) -> usize {
        self.strangers.waiting + self.known.waiting
    }
}

impl<T> Line<T> {
    fn new(capacity: usize) -> Self {
        Self { capacity, waiting: 0, queues: HashMap::new(), rotation: VecDeque::new() }
    }

    fn push(&mut self, requester: Requester, ticket: u64, caller: T) {
        let queue = self.queues.entry(requester).or_default();
        if queue.is_empty() {
            self.rotation.push_back(requester);
        }
        queue.push_back((ticket, caller));
        self.waiting += 1;
    }

    /// The first caller of a requester, whose next turn comes after all others'.
    fn take(&mut self, requester: Requester) -> Option<T> {
        self.rotation.retain(|queued| *queued != requester);
        let queue = self.queues.get_mut(&requester)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&requester);
        } else {
            self.rotation.push_back(requester);
        }
        self.waiting -= 1;
        first.map(|(_, caller)| caller)
    }
}

#[cfg(test)]
impl<T> Turns<T> {
    pub(super) fn idle(&self) -> usize {
        self.idle
    }
}
