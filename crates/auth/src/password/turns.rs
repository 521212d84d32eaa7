use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;

use super::Requester;

/// How many callers may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    /// Hashes computed at the same time.
    pub(super) workers: NonZeroUsize,
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
    waiting: usize,
    queues: HashMap<Requester, VecDeque<(u64, T)>>,
    /// The requesters that have a queue, the next in turn first.
    rotation: VecDeque<Requester>,
    last_ticket: u64,
}

/// The result for a new caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The caller has an idle worker.
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
        Self { idle: capacity.workers.get(), capacity, waiting: 0, queues, rotation, last_ticket: 0 }
    }

    /// Adds `caller`. If everything is full, a requester with a short queue displaces the last caller of the longest
    /// queue, who is returned.
    pub(super) fn admit(&mut self, requester: Requester, caller: T) -> (Admission, Option<T>) {
        if self.idle > 0 {
            self.idle -= 1;
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

    /// The next caller, for a worker that is free. `None`: no caller waits, and the worker is idle.
    pub(super) fn next(&mut self) -> Option<T> {
        while let Some(requester) = self.rotation.pop_front() {
            let Some(queue) = self.queues.get_mut(&requester) else { continue };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&requester);
            } else {
                self.rotation.push_back(requester);
            }
            if let Some((_, caller)) = next {
                self.waiting -= 1;
                return Some(caller);
            }
        }
        self.idle += 1;
        None
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
