//! What waits for the writer. [Shares](Share) take turns, so that nobody's write waits for all of somebody else's. The program's own
//! writes (sign-in, mail, outbox) take every other turn.

use std::collections::{HashMap, VecDeque};

use parking_lot::{Condvar, Mutex};

use super::writer::Job;
use crate::{Error, Share};

/// Jobs of one share that may wait; past it, they are refused. The program's own are never: it bounds them where they come from.
const MOST: usize = 4_096;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// The program's own.
    own: VecDeque<Box<dyn Job>>,
    /// Whose turn it is, if both wait.
    is_own_turn: bool,
    shares: HashMap<Share, VecDeque<Box<dyn Job>>>,
    /// The shares with jobs that wait, in the order of their turns.
    turns: VecDeque<Share>,
    /// The writer waits for a job.
    is_idle: bool,
    is_closed: bool,
}

impl Queue {
    pub(super) fn push(&self, share: Share, job: Box<dyn Job>) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        if share == Share::default() {
            state.own.push_back(job);
        } else {
            let jobs = state.shares.entry(share).or_default();
            if jobs.len() >= MOST {
                return Err(Error::Busy);
            }
            jobs.push_back(job);
            if jobs.len() == 1 {
                state.turns.push_back(share);
            }
        }
        let wake = std::mem::take(&mut state.is_idle);
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits for a job. `None` when there will be no more.
    pub(super) fn next(&self) -> Option<Box<dyn Job>> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.take() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.is_idle = true;
            self.arrived.wait(&mut state);
        }
    }

    /// A job that waits already.
    pub(super) fn waiting(&self) -> Option<Box<dyn Job>> {
        self.state.lock().take()
    }

    /// Takes no more jobs. Those that are there are still run.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Drops what waits, and whatever comes: there is nobody to run it.
    pub(super) fn abandon(&self) {
        let waiting = std::mem::replace(&mut *self.state.lock(), State { is_closed: true, ..State::default() });
        drop(waiting);
    }
}

impl State {
    /// The job whose turn it is.
    fn take(&mut self) -> Option<Box<dyn Job>> {
        let is_own_turn = std::mem::replace(&mut self.is_own_turn, false);
        if (is_own_turn || self.turns.is_empty())
            && let Some(job) = self.own.pop_front()
        {
            return Some(job);
        }
        self.is_own_turn = true;
        let share = self.turns.pop_front()?;
        let jobs = self.shares.get_mut(&share)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.shares.remove(&share);
        } else {
            self.turns.push_back(share);
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::connection::OnThread;
    use super::super::writer::Undo;
    use super::*;

    /// A job that tells its name when it ends.
    struct Named(&'static str, Arc<Mutex<Vec<&'static str>>>);

    impl Job for Named {
        fn run(&mut self, _: OnThread, _: Undo) -> bool {
            true
        }

        fn finish(self: Box<Self>, _: Result<(), Error>) {
            self.1.lock().push(self.0);
        }
    }

    #[test]
    fn shares_take_turns_and_each_keeps_its_order() {
        let (queue, ended) = (Queue::default(), Arc::default());
        for (share, name) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (1, "a4"), (3, "c1"), (2, "b2")] {
            queue.push(Share(share), Box::new(Named(name, Arc::clone(&ended)))).unwrap();
        }
        while let Some(job) = queue.waiting() {
            job.finish(Ok(()));
        }
        assert_eq!(*ended.lock(), ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
        assert!(queue.state.lock().shares.is_empty(), "a share without jobs takes no memory");
    }

    #[test]
    fn the_program_s_own_take_every_other_turn_however_many_shares_wait() {
        let (queue, ended) = (Queue::default(), Arc::default());
        for (share, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (0, "own 1"), (0, "own 2"), (0, "own 3")] {
            queue.push(Share(share), Box::new(Named(name, Arc::clone(&ended)))).unwrap();
        }
        while let Some(job) = queue.waiting() {
            job.finish(Ok(()));
        }
        assert_eq!(*ended.lock(), ["a", "own 1", "b", "own 2", "c", "own 3", "d"]);
    }

    #[test]
    fn a_share_that_has_too_much_waiting_is_refused_and_others_are_not() {
        let (queue, ended) = (Queue::default(), Arc::default());
        let job = || Box::new(Named("", Arc::clone(&ended)));
        for _ in 0..MOST {
            queue.push(Share(1), job()).unwrap();
        }
        assert!(matches!(queue.push(Share(1), job()), Err(Error::Busy)));
        queue.push(Share(2), job()).unwrap();
        queue.close();
        assert!(matches!(queue.push(Share(2), job()), Err(Error::Closed)));
        assert_eq!(std::iter::from_fn(|| queue.next()).count(), MOST + 1, "what waited is still run");
    }
}
