use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, TryAcquireError};

/// Runs hashing on blocking threads, as many at a time as there are cores, with a bounded line in front.
///
/// A password hash is a quarter second of pure computation by design. Without a bound, a burst of sign-ins would take
/// every core and answer nobody in time; past the line's end the honest answer is "try again soon". A caller who gives
/// up leaves the line; one whose hash has begun keeps its core until it is done, so the bound always holds.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    /// One permit for each caller being served or waiting.
    places: Arc<Semaphore>,
    /// One permit for each hash being computed.
    workers: Arc<Semaphore>,
}

/// The line is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many password hashes are waiting")]
pub struct Overloaded;

impl Overloaded {
    /// When it is worth trying again.
    pub const RETRY_AFTER: Duration = Duration::from_secs(5);
}

impl Pool {
    /// `workers` hashes at a time, and at most `waiting` callers in line.
    pub(super) fn new(workers: usize, waiting: usize) -> Self {
        let workers = workers.max(1);
        Self { places: Arc::new(Semaphore::new(workers + waiting)), workers: Arc::new(Semaphore::new(workers)) }
    }

    /// Runs `work` when its turn comes.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Overloaded> {
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(TryAcquireError::NoPermits) => return Err(Overloaded),
            Err(TryAcquireError::Closed) => unreachable!("the pool's semaphores are never closed"),
        };
        let worker = self.workers.clone().acquire_owned().await.expect("the pool's semaphores are never closed");
        let span = tracing::Span::current();
        let job = tokio::task::spawn_blocking(move || {
            let _held = (place, worker);
            span.in_scope(work)
        });
        match job.await {
            Ok(result) => Ok(result),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Only a runtime that is shutting down cancels a job that nobody aborts.
            Err(_) => Err(Overloaded),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn past_the_line_the_answer_is_overloaded_and_a_place_comes_free_again() {
        let pool = Pool::new(1, 1);
        let (release, gate) = mpsc::channel::<()>();
        let busy = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(move || gate.recv().is_ok()).await }
        });
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(|| 2).await }
        });
        while pool.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 3).await, Err(Overloaded));
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
        assert_eq!(waiting.await.unwrap(), Ok(2));
        assert_eq!(pool.run(|| 4).await, Ok(4));
    }

    #[tokio::test]
    async fn a_caller_who_leaves_the_line_frees_its_place() {
        let pool = Pool::new(1, 1);
        let (release, gate) = mpsc::channel::<()>();
        let busy = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(move || gate.recv().is_ok()).await }
        });
        while pool.workers.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let mut leaving = Box::pin(pool.run(|| 1));
        tokio::select! {
            biased;
            _ = &mut leaving => unreachable!("the one worker is busy"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(pool.places.available_permits(), 0);
        drop(leaving);
        assert_eq!(pool.places.available_permits(), 1);
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
    }
}
