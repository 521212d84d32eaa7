use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Requester;
use super::turns::{Admission, Capacity, Turns};

/// Runs hashing on threads of its own, at most one for each core, with a limited queue per requester.
///
/// A password hash is a quarter second of computation by design. Without limits, a burst of sign-ins would use every
/// core, and no answer would be in time. Therefore the hashes of one requester leave one core to others, and the hashes
/// of strangers have a lower priority than answers. Requesters take turns, so that one with a full queue does not delay
/// another by its whole queue. Known devices have places and turns of their own, and the priority of answers, so that
/// neither a flood from many addresses nor busy cores keep users out. A caller that is dropped leaves the queue. A hash
/// that has begun keeps its core until it is done.
#[derive(Debug, Clone)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    turns: Mutex<Turns<oneshot::Sender<Worker>>>,
    computed: AtomicU64,
    refused: AtomicU64,
}

/// The work of the hashing pool since the start, and its queue, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashingLoad {
    /// The number of passwords that were hashed or compared.
    pub computed: u64,
    /// The number of callers that were refused because the queue was full.
    pub refused: u64,
    /// The number of callers in the queue.
    pub waiting: usize,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many password hashes are waiting")]
pub struct Overloaded;

impl Overloaded {
    /// The time after which to retry.
    pub const RETRY_AFTER: Duration = Duration::from_secs(5);
}

impl Pool {
    pub(super) fn new(capacity: Capacity) -> Self {
        let turns = Mutex::new(Turns::new(capacity));
        Self(Arc::new(Shared { turns, computed: AtomicU64::new(0), refused: AtomicU64::new(0) }))
    }

    /// Runs `work` when the turn of `requester` comes.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        requester: Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Overloaded> {
        let worker = self.worker(requester).await.inspect_err(|_| {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        })?;
        self.0.computed.fetch_add(1, Ordering::Relaxed);
        let span = tracing::Span::current();
        let (sender, receiver) = oneshot::channel();
        let hash = move || {
            let _worker = worker;
            if !requester.is_known() {
                lower_priority();
            }
            let _gone = sender.send(catch_unwind(AssertUnwindSafe(|| span.in_scope(work))));
        };
        // Starting a thread takes a thousandth of a hash.
        Builder::new().name("password".to_owned()).spawn(hash).map_err(|error| {
            tracing::error!(%error, "the system cannot start a thread for a password hash");
            Overloaded
        })?;
        match receiver.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => resume_unwind(panic),
            // The thread answers even if the work panics.
            Err(_) => Err(Overloaded),
        }
    }

    pub(super) fn load(&self) -> HashingLoad {
        let Shared { turns, computed, refused } = &*self.0;
        let waiting = turns.lock().waiting();
        HashingLoad { computed: computed.load(Ordering::Relaxed), refused: refused.load(Ordering::Relaxed), waiting }
    }

    async fn worker(&self, requester: Requester) -> Result<Worker, Overloaded> {
        let (sender, receiver) = oneshot::channel();
        let (admission, displaced) = self.0.turns.lock().admit(requester, sender);
        // Dropping its sender informs a caller that it has lost its place.
        drop(displaced);
        let ticket = match admission {
            Admission::Now => return Ok(Worker(Some((self.0.clone(), requester)))),
            Admission::Refused => return Err(Overloaded),
            Admission::Queued(ticket) => ticket,
        };
        let _place = Place { shared: self.0.clone(), requester, ticket };
        receiver.await.map_err(|_| Overloaded)
    }
}

/// The nice value of threads that hash for strangers, above the one of the process. Of a core that another thread would
/// use completely, a hash gets a quarter. With 10 it was a tenth, and a few slow lists delayed sign-ins by 20 seconds.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// Lowers the priority of the calling thread. On other systems than Linux, a nice value is of the whole process.
///
/// A sandbox may refuse it. Then hashing for strangers competes with other threads on equal terms.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICE) {
        static NOTED: std::sync::Once = std::sync::Once::new();
        NOTED.call_once(|| {
            tracing::warn!(%error, "the system refuses threads a lower priority, so many sign-ins can slow down answers");
        });
    }
}

/// The right to compute one hash. Dropping it passes the right to the next caller.
#[derive(Debug)]
struct Worker(Option<(Arc<Shared>, Requester)>);

impl Drop for Worker {
    fn drop(&mut self) {
        let Some((shared, mut done)) = self.0.take() else { return };
        loop {
            let Some((requester, next)) = shared.turns.lock().next(done) else { return };
            match next.send(Self(Some((shared.clone(), requester)))) {
                Ok(()) => return,
                // That caller has given up; the right returns to the one after.
                Err(mut unwanted) => (unwanted.0, done) = (None, requester),
            }
        }
    }
}

/// A place in a queue, given up when its caller is dropped.
struct Place {
    shared: Arc<Shared>,
    requester: Requester,
    ticket: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _left = self.shared.turns.lock().leave(self.requester, self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinHandle;

    use std::num::NonZeroUsize;

    use super::*;

    fn pool(waiting: usize, waiting_per_requester: usize) -> Pool {
        let workers = NonZeroUsize::MIN;
        let (strangers, known) = (waiting, waiting);
        Pool::new(Capacity { workers, workers_per_requester: workers, strangers, known, waiting_per_requester })
    }

    fn requester(last: u8) -> Requester {
        Requester::client(Some([192, 0, 2, last].into()))
    }

    /// Occupies the one worker until the sender is used.
    async fn occupy(pool: &Pool) -> (mpsc::Sender<()>, JoinHandle<Result<bool, Overloaded>>) {
        let (release, gate) = mpsc::channel::<()>();
        let busy = spawn(pool, Requester::SERVER, move || gate.recv().is_ok());
        while pool.0.turns.lock().idle() > 0 {
            tokio::task::yield_now().await;
        }
        (release, busy)
    }

    fn spawn<T: Send + 'static>(
        pool: &Pool,
        requester: Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<Result<T, Overloaded>> {
        let pool = pool.clone();
        tokio::spawn(async move { pool.run(requester, work).await })
    }

    async fn until_waiting(pool: &Pool, count: usize) {
        while pool.0.turns.lock().waiting() != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_full_queue_answers_overloaded_and_accepts_again_after_a_hash() {
        let pool = pool(9, 1);
        let (release, busy) = occupy(&pool).await;
        let waiting = spawn(&pool, requester(1), || 2);
        until_waiting(&pool, 1).await;
        assert_eq!(pool.run(requester(1), || 3).await, Err(Overloaded));
        let other = spawn(&pool, requester(2), || 4);
        until_waiting(&pool, 2).await;
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
        assert_eq!((waiting.await.unwrap(), other.await.unwrap()), (Ok(2), Ok(4)));
        assert_eq!(pool.run(requester(1), || 5).await, Ok(5));
        assert_eq!(pool.load(), HashingLoad { computed: 4, refused: 1, waiting: 0 });
    }

    #[tokio::test]
    async fn a_hundred_callers_of_one_address_delay_another_address_by_one_hash() {
        let pool = pool(200, 100);
        let (release, busy) = occupy(&pool).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut all = Vec::new();
        let mut line_up = |who: u8| {
            let order = order.clone();
            all.push(spawn(&pool, requester(who), move || order.lock().push(who)));
            all.len()
        };
        for _ in 0..100 {
            let count = line_up(1);
            until_waiting(&pool, count).await;
        }
        for victim in [2, 3] {
            let count = line_up(victim);
            until_waiting(&pool, count).await;
        }
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
        for job in all {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        assert_eq!(order.lock()[..4], [1, 2, 3, 1]);
    }

    #[tokio::test]
    async fn one_requester_leaves_a_worker_to_others() {
        let (one, two) = (NonZeroUsize::MIN, NonZeroUsize::MIN.saturating_add(1));
        let pool = Pool::new(Capacity {
            workers: two,
            workers_per_requester: one,
            strangers: 9,
            known: 9,
            waiting_per_requester: 9,
        });
        let (release, gate) = mpsc::channel::<()>();
        let busy = spawn(&pool, requester(1), move || gate.recv().is_ok());
        while pool.0.turns.lock().idle() > 1 {
            tokio::task::yield_now().await;
        }
        let second = spawn(&pool, requester(1), || 2);
        until_waiting(&pool, 1).await;
        assert_eq!(pool.run(requester(2), || 3).await, Ok(3), "another requester does not wait");
        assert_eq!(
            pool.0.turns.lock().waiting(),
            1,
            "the end of another's hash is no turn of a requester with its share"
        );
        release.send(()).unwrap();
        assert_eq!((busy.await.unwrap(), second.await.unwrap()), (Ok(true), Ok(2)));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn hashes_for_strangers_have_a_lower_priority_than_answers() {
        let own = rustix::process::nice(0).unwrap();
        let pool = pool(1, 1);
        let known = Requester::known_device(&gatewright_base::UserId::parse("u1").unwrap());
        for (requester, priority) in [(requester(1), (own + NICE).min(19)), (known, own), (Requester::SERVER, own)] {
            assert_eq!(pool.run(requester, || rustix::process::nice(0).unwrap()).await, Ok(priority));
        }
        assert_eq!(rustix::process::nice(0), Ok(own), "other threads keep theirs");
    }

    #[tokio::test]
    async fn a_full_pool_displaces_the_last_caller_of_the_longest_queue() {
        let pool = pool(4, 4);
        let (release, busy) = occupy(&pool).await;
        let mut greedy = Vec::new();
        for count in 1..=4 {
            greedy.push(spawn(&pool, requester(1), || 1));
            until_waiting(&pool, count).await;
        }
        let newcomer = spawn(&pool, requester(2), || 2);
        assert_eq!(greedy.pop().unwrap().await.unwrap(), Err(Overloaded), "the last of the longest queue");
        assert_eq!(pool.run(requester(1), || 1).await, Err(Overloaded));
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
        assert_eq!(newcomer.await.unwrap(), Ok(2));
        for job in greedy {
            assert_eq!(job.await.unwrap(), Ok(1));
        }
    }

    #[tokio::test]
    async fn a_hundred_addresses_leave_a_known_device_its_place_and_delay_it_by_one_hash() {
        let pool = pool(20, 20);
        let (release, busy) = occupy(&pool).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let line_up = |requester: Requester, who: u8| {
            let order = order.clone();
            spawn(&pool, requester, move || order.lock().push(who))
        };
        let (mut all, mut refused) = (Vec::new(), 0);
        for address in 0..100 {
            let queued = line_up(requester(address), address);
            if address < 20 {
                all.push(queued);
                until_waiting(&pool, all.len()).await;
            } else if queued.await.unwrap() == Err(Overloaded) {
                refused += 1;
            }
        }
        assert_eq!(refused, 80);
        let known = Requester::known_device(&gatewright_base::UserId::parse("u1").unwrap());
        for _ in 0..2 {
            all.push(line_up(known, 200));
            until_waiting(&pool, all.len()).await;
        }
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
        for job in all {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        assert_eq!(order.lock()[..4], [200, 0, 200, 1]);
    }

    #[tokio::test]
    async fn a_caller_who_leaves_the_queue_frees_its_place() {
        let pool = pool(1, 1);
        let (release, busy) = occupy(&pool).await;
        let mut leaving = Box::pin(pool.run(requester(1), || 1));
        tokio::select! {
            biased;
            _ = &mut leaving => unreachable!("the one worker is busy"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(pool.0.turns.lock().waiting(), 1);
        drop(leaving);
        assert_eq!(pool.0.turns.lock().waiting(), 0);
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
        assert_eq!(pool.run(requester(1), || 2).await, Ok(2));
    }
}
