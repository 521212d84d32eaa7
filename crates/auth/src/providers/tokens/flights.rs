use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use gatewright_base::UserId;
use parking_lot::Mutex;

/// Concurrent work, one piece at a time for each user and provider. Cheap to clone; all clones are one.
///
/// It runs in a separate task: a provider that has accepted a refresh token has issued a new one, which must be stored
/// even if all callers have disconnected.
pub(super) struct Flights<T>(Arc<Mutex<HashMap<Key, Flight<T>>>>);

type Key = (UserId, String);

struct Flight<T> {
    demand: Demand,
    landed: Shared<BoxFuture<'static, Option<T>>>,
}

/// The requested token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    /// A valid token: a new one only if there is none.
    Valid,
    /// A new one in any case.
    New,
}

impl<T: Clone + Send + Sync + 'static> Flights<T> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The result of `work`, or of the same work that is already running for another caller and meets the demand.
    /// `None` if it panicked.
    pub(super) async fn join<W>(&self, key: Key, demand: Demand, work: impl Fn() -> W + Send) -> Option<T>
    where
        W: Future<Output = T> + Send + 'static,
    {
        loop {
            let (landed, met) = match self.0.lock().entry(key.clone()) {
                Entry::Occupied(flight) => (flight.get().landed.clone(), flight.get().demand >= demand),
                Entry::Vacant(vacant) => {
                    let landed = self.start(key.clone(), work());
                    (vacant.insert(Flight { demand, landed }).landed.clone(), true)
                }
            };
            let result = landed.await;
            if met {
                return result;
            }
        }
    }

    fn start(&self, key: Key, work: impl Future<Output = T> + Send + 'static) -> Shared<BoxFuture<'static, Option<T>>> {
        let under_way = UnderWay { flights: self.0.clone(), key };
        let task = tokio::spawn(async move {
            let result = work.await;
            // Before the result is published, so that later callers start again.
            drop(under_way);
            result
        });
        task.map(Result::ok).boxed().shared()
    }
}

/// Takes a flight out when it ends, however it ends.
struct UnderWay<T> {
    flights: Arc<Mutex<HashMap<Key, Flight<T>>>>,
    key: Key,
}

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn key() -> Key {
        (UserId::parse("ann").unwrap(), "google".to_owned())
    }

    #[derive(Clone, Default)]
    struct Counter(Arc<AtomicU32>);

    impl Counter {
        async fn work(self) -> u32 {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            self.0.fetch_add(1, Ordering::SeqCst) + 1
        }
    }

    async fn all(flights: &Flights<u32>, counter: &Counter, demands: &[Demand]) -> Vec<Option<u32>> {
        let joins = demands.iter().map(|demand| flights.join(key(), *demand, || counter.clone().work()));
        futures_util::future::join_all(joins).await
    }

    #[tokio::test]
    async fn concurrent_callers_share_the_work() {
        let (flights, counter) = (Flights::new(), Counter::default());
        assert_eq!(all(&flights, &counter, &[Demand::New; 20]).await, [Some(1); 20]);
        assert_eq!(all(&flights, &counter, &[Demand::Valid; 20]).await, [Some(2); 20]);
        assert!(flights.0.lock().is_empty());
    }

    #[tokio::test]
    async fn a_caller_who_requests_a_new_token_does_not_get_a_cached_one() {
        let (flights, counter) = (Flights::new(), Counter::default());
        let results = all(&flights, &counter, &[Demand::Valid, Demand::New, Demand::Valid, Demand::New]).await;
        assert_eq!(results, [Some(1), Some(2), Some(1), Some(2)]);
    }

    #[tokio::test]
    async fn work_continues_after_its_callers_are_dropped() {
        let (flights, counter) = (Flights::new(), Counter::default());
        let mut join = Box::pin(flights.join(key(), Demand::New, || counter.clone().work()));
        assert!(futures_util::poll!(&mut join).is_pending());
        drop(join);
        while counter.0.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn later_work_runs_after_a_panic() {
        let flights = Flights::<u32>::new();
        assert_eq!(flights.join(key(), Demand::New, || async { panic!("a bug in a host's store") }).await, None);
        assert_eq!(flights.join(key(), Demand::New, || async { 7 }).await, Some(7));
    }
}
