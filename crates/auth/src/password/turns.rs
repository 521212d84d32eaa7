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
    /// Callers waiting, over all requesters.
    pub(super) waiting: usize,
    /// Callers of one requester waiting.
    pub(super) waiting_per_requester: usize,
}

/// The queues of all requesters, served in rotation. No clock and no locks.
#[derive(Debug)]
pub(super) struct Turns<T> {
    capacity: Capacity,
    idle: usize,
    /// Hashes that are computed, of each requester that has one.
    computing: HashMap<Requester, usize>,
    waiting: usize,
    queues: HashMap<Requester, VecDeque<(u64, T)>>,
    /// The requesters that have a queue, the next in turn first.
    rotation: VecDeque<Requester>,
    last_ticket: u64,
}

/// The result for a new caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The caller has an idle worker, until [`Turns::next`].
    Now,
    /// The caller waits. The ticket is for [`Turns::leave`].
    Queued(u64),
    /// The requester's queue is full, or the limit of all queues is reached and no queue is longer than the
    /// requester's.
    Refused,
}

impl<T> Turns<T> {
    pub(super) fn new(capacity: Capacity) -> Self {
        let (queues, rotation) = (HashMap::new(), VecDeque::new());
        let (idle, computing) = (capacity.workers.get(), HashMap::new());
        Self { capacity, idle, computing, waiting: 0, queues, rotation, last_ticket: 0 }
    }

    /// Adds `caller`. If everything is full, a requester with a short queue displaces the last caller of the longest
    /// queue, who is returned.
    pub(super) fn admit(&mut self, requester: Requester, caller: T) -> (Admission, Option<T>) {
        if self.may_begin(requester) {
            self.begin(requester);
            return (Admission::Now, None);
        }
        let own = self.queues.get(&requester).map_or(0, VecDeque::len);
        if own >= self.capacity.waiting_per_requester {
            return (Admission::Refused, None);
        }
        let mut displaced = None;
        if self.waiting >= self.capacity.waiting {
            let longest = self.queues.iter().max_by_key(|(_, queue)| queue.len());
            let Some(longest) = longest.filter(|(_, queue)| queue.len() > own + 1).map(|(requester, _)| *requester)
            else {
                return (Admission::Refused, None);
            };
            displaced = self.queues.get_mut(&longest).and_then(VecDeque::pop_back).map(|(_, caller)| caller);
            self.waiting -= 1;
        }
        self.last_ticket += 1;
        let queue = self.queues.entry(requester).or_default();
        if queue.is_empty() {
            self.rotation.push_back(requester);
        }
        queue.push_back((self.last_ticket, caller));
        self.waiting += 1;
        (Admission::Queued(self.last_ticket), displaced)
    }

    /// Ends a hash of `done`, and begins the one of the next caller, who is returned with its requester. `None`: no
    /// caller waits, or only requesters that have all of their workers; the worker is idle.
    pub(super) fn next(&mut self, done: Requester) -> Option<(Requester, T)> {
        self.end(done);
        let index = self.rotation.iter().position(|requester| self.may_begin(*requester))?;
        let requester = self.rotation.remove(index)?;
        let queue = self.queues.get_mut(&requester)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&requester);
        } else {
            self.rotation.push_back(requester);
        }
        let (_, caller) = next?;
        self.waiting -= 1;
        self.begin(requester);
        Some((requester, caller))
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
        let queue = self.queues.get_mut(&requester)?;
        let index = queue.iter().position(|(queued, _)| *queued == ticket)?;
        let (_, caller) = queue.remove(index)?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&requester);
            self.rotation.retain(|queued| *queued != requester);
        }
        Some(caller)
    }

    /// How many callers wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
impl<T> Turns<T> {
    pub(super) fn idle(&self) -> usize {
        self.idle
    }
}
