//! The queue of the writer. The next turn is that of the [share](Share) that has used the least time, so that a write does not
//! wait for all writes of another share, and short writes do not wait for several long ones. The program's own writes (sign-in,
//! mail, outbox) get every second turn.
//!
//! While others write, a share that has used more time than they have does not join the group of another job, which would delay
//! that job's commit. After a long or a large turn, a share [rests](crate::resting) while others write.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::writer::Job;
use crate::resting::Resting;
use crate::{Error, Share};

/// Jobs of one share that may wait; past it, they are refused. The program's own are never: it bounds them where they come from.
const MOST: usize = 4_096;
/// How much more time than others a share may have used to join a group.
const AHEAD: Duration = Duration::from_micros(500);
/// The most time by which a share can be ahead.
const FARTHEST: Duration = Duration::from_secs(1);
/// From how many shares on those are forgotten that are not ahead.
const REMEMBERED: usize = 1_024;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// The program's own.
    own: VecDeque<Box<dyn Job>>,
    /// Which of the two has the next turn if both wait.
    is_own_turn: bool,
    shares: HashMap<Share, VecDeque<Box<dyn Job>>>,
    /// The shares with jobs that wait, by the time that they have used and the order in which they came. Not the one that has the
    /// turn.
    turns: BTreeMap<(Duration, u64), Share>,
    /// The number of the last place in the order.
    last: u64,
    /// The time that shares have used, where it is more than `clock`.
    used: HashMap<Share, Duration>,
    /// The time that the share of the current turn had used at its begin. A share that has not written for a while has used so much.
    clock: Duration,
    /// The writer waits for a job.
    is_idle: bool,
    is_closed: bool,
    /// Whose turn it is, until it is noted how long it took.
    taken: Option<Share>,
    resting: Resting,
}

impl Queue {
    pub(super) fn push(&self, share: Share, job: Box<dyn Job>) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        state.resting.came(share);
        if share == Share::default() {
            state.own.push_back(job);
        } else {
            let jobs = state.shares.entry(share).or_default();
            if jobs.len() >= MOST {
                return Err(Error::Busy);
            }
            jobs.push_back(job);
            if jobs.len() == 1 && state.taken != Some(share) {
                state.line_up(share);
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
            if let Some(job) = state.take(false) {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.is_idle = true;
            match state.resting.next() {
                Some(until) => drop(self.arrived.wait_until(&mut state, until)),
                None => self.arrived.wait(&mut state),
            }
        }
    }

    /// Notes how long the job of the current turn took, and how many bytes it has written.
    pub(super) fn took(&self, time: Duration, bytes: u64) {
        let mut state = self.state.lock();
        if let Some(share) = state.taken {
            state.settle(time);
            state.resting.took(share, time, bytes);
        }
    }

    /// A job that waits already and may join a group.
    pub(super) fn waiting(&self) -> Option<Box<dyn Job>> {
        self.state.lock().take(true)
    }

    /// Accepts no more jobs. Queued jobs still run.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Drops queued and new jobs: there is no writer to run them.
    pub(super) fn abandon(&self) {
        let waiting = std::mem::replace(&mut *self.state.lock(), State { is_closed: true, ..State::default() });
        drop(waiting);
    }
}

impl State {
    /// The first share in turn that does not rest. When the writer is about to end, no share rests.
    fn awake(&mut self) -> Option<((Duration, u64), Share)> {
        self.resting.forget_rested();
        let (resting, is_closed) = (&mut self.resting, self.is_closed);
        let awake = self.turns.iter().find(|(_, share)| is_closed || resting.until(**share).is_none());
        awake.map(|(place, share)| (*place, *share))
    }

    /// The job of the next turn. With `joins`, it shares the commit of others.
    fn take(&mut self, joins: bool) -> Option<Box<dyn Job>> {
        self.settle(Duration::ZERO);
        let is_own_turn = std::mem::replace(&mut self.is_own_turn, false);
        let awake = self.awake();
        if (is_own_turn || awake.is_none())
            && let Some(job) = self.own.pop_front()
        {
            return Some(job);
        }
        self.is_own_turn = true;
        let (place, share) = awake?;
        let (used, _) = place;
        if joins && used > self.clock + AHEAD && self.resting.has_others(share) {
            return None;
        }
        self.turns.remove(&place);
        self.clock = self.clock.max(used);
        self.taken = Some(share);
        let jobs = self.shares.get_mut(&share)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.shares.remove(&share);
        }
        job
    }

    /// Ends the current turn, which took so long. Its share has a place again if it has more jobs.
    fn settle(&mut self, time: Duration) {
        let Some(share) = self.taken.take() else { return };
        let used = self.used_by(share) + time;
        self.used.insert(share, used.min(self.clock + FARTHEST));
        if self.used.len() > REMEMBERED {
            let clock = self.clock;
            self.used.retain(|_, used| *used > clock);
        }
        if self.shares.contains_key(&share) {
            self.line_up(share);
        }
    }

    fn used_by(&self, share: Share) -> Duration {
        self.used.get(&share).copied().unwrap_or_default().max(self.clock)
    }

    /// Gives a share its place.
    fn line_up(&mut self, share: Share) {
        self.last += 1;
        self.turns.insert((self.used_by(share), self.last), share);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::super::connection::OnThread;
    use super::super::writer::Undo;
    use super::*;
    use crate::resting::LONG;

    /// A job that records its name when it ends.
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
    fn the_programs_own_jobs_get_every_second_turn() {
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
    fn a_share_rests_after_a_long_turn_while_others_write() {
        let (queue, ended) = (Queue::default(), Arc::default());
        let push = |share, name| queue.push(Share(share), Box::new(Named(name, Arc::clone(&ended)))).unwrap();
        let run = |job: Option<Box<dyn Job>>| {
            job.is_some_and(|job| {
                job.finish(Ok(()));
                true
            })
        };
        // Without others it continues at once.
        push(1, "a1");
        assert!(run(queue.waiting()));
        queue.took(2 * LONG, 0);
        push(1, "a2");
        assert!(run(queue.waiting()));
        queue.took(2 * LONG, 0);

        // A request of another share, in several writes.
        push(0, "b1");
        push(1, "a3");
        push(1, "a4");
        assert!(run(queue.waiting()));
        assert!(!run(queue.waiting()), "b1 does not wait for a long turn");
        assert!(run(queue.next()));
        queue.took(20 * LONG, 0);
        for name in ["b2", "b3"] {
            push(0, name);
            assert!(run(queue.waiting()));
            queue.took(2 * LONG, 0);
        }
        assert!(!run(queue.waiting()), "it rests, and nobody else is there");
        let began = Instant::now();
        assert!(run(queue.next()));
        assert!(began.elapsed() >= LONG, "it rested");
        assert_eq!(*ended.lock(), ["a1", "a2", "b1", "a3", "b2", "b3", "a4"]);

        // Jobs that wait when the writer ends still run.
        push(2, "c");
        assert!(run(queue.waiting()));
        push(1, "a5");
        assert!(run(queue.next()));
        queue.took(4 * LONG, 0);
        push(1, "a6");
        queue.close();
        assert!(run(queue.next()) && !run(queue.next()));
    }

    #[test]
    fn short_writes_come_before_those_of_a_share_that_has_used_more_time() {
        let (queue, ended) = (Queue::default(), Arc::default());
        let push = |share, name| queue.push(Share(share), Box::new(Named(name, Arc::clone(&ended)))).unwrap();
        let run = |job: Option<Box<dyn Job>>, time| {
            job.is_some_and(|job| {
                job.finish(Ok(()));
                queue.took(time, 0);
                true
            })
        };
        let (long, short) = (Duration::from_millis(4), Duration::from_millis(1));
        for name in ["a1", "a2", "a3"] {
            push(1, name);
        }
        assert!(run(queue.next(), long));
        // Each comes when the one before it has its answer.
        for name in ["b1", "b2", "b3", "b4"] {
            push(2, name);
            assert!(run(queue.next(), short));
            assert!(!run(queue.waiting(), long), "{name} is committed without a long turn");
        }
        push(2, "b5");
        assert!(run(queue.next(), long) && run(queue.next(), short));
        assert_eq!(*ended.lock(), ["a1", "b1", "b2", "b3", "b4", "a2", "b5"]);
        // Without others, nothing is held back.
        std::thread::sleep(Duration::from_millis(1_100));
        push(1, "a4");
        push(1, "a5");
        assert!(run(queue.next(), long) && run(queue.waiting(), long));
    }

    #[test]
    fn a_share_with_a_full_queue_is_refused_and_others_are_not() {
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
