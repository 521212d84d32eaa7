//! Statements of one caller that wait for their turn: the next turn runs several of them in one transaction, which costs the server a
//! fraction of as many commits.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use super::DriverRow;
use crate::{Error, Share, Sql, Value};

/// Statements of one transaction. More hardly make it faster.
const MOST: usize = 16;

/// All statements that wait.
#[derive(Default)]
pub(super) struct Waiters(Mutex<State>);

#[derive(Default)]
struct State {
    queues: HashMap<Share, VecDeque<(u64, Waiting)>>,
    last_ticket: u64,
}

/// A statement that waits.
pub(super) struct Waiting {
    pub(super) sql: Sql,
    pub(super) params: Vec<Value>,
    pub(super) done: Done,
}

/// Takes the rows of a statement after its commit, or why it was not committed.
pub(super) type Done = Box<dyn FnOnce(Result<Vec<DriverRow>, Error>) + Send>;

/// The place of a statement. If it is dropped while the statement waits, the statement does not run.
pub(super) struct Place<'a> {
    waiters: &'a Waiters,
    share: Share,
    ticket: u64,
}

impl Waiters {
    pub(super) fn line_up(&self, share: Share, waiting: Waiting) -> Place<'_> {
        let mut state = self.0.lock();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        state.queues.entry(share).or_default().push_back((ticket, waiting));
        Place { waiters: self, share, ticket }
    }

    /// Takes the statements of the next turn of `share`, in their order.
    pub(super) fn next(&self, share: Share) -> Vec<Waiting> {
        let mut state = self.0.lock();
        let Some(queue) = state.queues.get_mut(&share) else { return Vec::new() };
        let next = queue.drain(..queue.len().min(MOST)).map(|(_, waiting)| waiting).collect();
        if queue.is_empty() {
            state.queues.remove(&share);
        }
        next
    }
}

impl Place<'_> {
    /// Whether the statement has not begun.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiters.0.lock().queues.get(&self.share).is_some_and(|queue| self.index(queue).is_some())
    }

    /// Removes the statement. `false` if it has begun.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.waiters.0.lock();
        let Some(queue) = state.queues.get_mut(&self.share) else { return false };
        let removed = self.index(queue).and_then(|index| queue.remove(index));
        if queue.is_empty() {
            state.queues.remove(&self.share);
        }
        drop(state);
        removed.is_some()
    }

    /// Tickets ascend.
    fn index(&self, queue: &VecDeque<(u64, Waiting)>) -> Option<usize> {
        queue.binary_search_by_key(&self.ticket, |(ticket, _)| *ticket).ok()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(number: i64) -> Waiting {
        Waiting { sql: Sql::from("SELECT 1"), params: vec![Value::from(number)], done: Box::new(|_| {}) }
    }

    fn numbers(waiting: Vec<Waiting>) -> Vec<Value> {
        waiting.into_iter().flat_map(|waiting| waiting.params).collect()
    }

    #[test]
    fn a_turn_takes_the_first_statements_of_its_own_share() {
        let waiters = Waiters::default();
        let anns: Vec<_> = (0..20).map(|number| waiters.line_up(Share(1), waiting(number))).collect();
        let bobs = waiters.line_up(Share(2), waiting(100));
        assert_eq!(numbers(waiters.next(Share(1))), (0..16).map(Value::from).collect::<Vec<_>>());
        assert!(!anns[15].is_waiting() && anns[16].is_waiting() && bobs.is_waiting());
        assert_eq!(numbers(waiters.next(Share(1))), (16..20).map(Value::from).collect::<Vec<_>>());
        assert!(waiters.next(Share(1)).is_empty());
        assert_eq!(waiters.next(Share(2)).len(), 1);
        assert!(waiters.0.lock().queues.is_empty());
    }

    #[test]
    fn a_statement_whose_caller_leaves_does_not_run() {
        let waiters = Waiters::default();
        let [first, second, third] = [1, 2, 3].map(|number| waiters.line_up(Share(1), waiting(number)));
        assert!(second.leave());
        assert!(!second.leave());
        drop(third);
        assert_eq!(numbers(waiters.next(Share(1))), [Value::from(1)]);
        assert!(!first.leave(), "it has begun");
        drop(waiters.line_up(Share(1), waiting(4)));
        assert!(waiters.0.lock().queues.is_empty());
    }
}
