use std::future::Future;
use std::sync::Arc;

use gatewright_base::Ambient;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::providers::ProviderError;

/// A document of an issuer that is fetched when first needed, and cached.
///
/// Callers that need it while it is being fetched wait for that one answer. A failed fetch is tried again, but not by
/// every waiting caller, and not before [`PAUSE`], so that an unavailable issuer does not get many requests.
pub(super) struct Fetched<T> {
    state: Mutex<State<T>>,
    ambient: Ambient,
}

struct State<T> {
    kept: Option<(Arc<T>, Timestamp)>,
    failed: Option<(ProviderError, Timestamp)>,
    renewed: Option<Timestamp>,
}

/// After a failure, how long it is the answer.
const PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// The minimum time between two early fetches because something is missing in the cached document.
const RENEWAL: SignedDuration = SignedDuration::from_secs(60);

impl<T> Fetched<T> {
    pub(super) fn new(ambient: Ambient) -> Self {
        Self { state: Mutex::new(State { kept: None, failed: None, renewed: None }), ambient }
    }

    /// The cached document, if it is younger than `ttl`; otherwise the result of `fetch`. Without a `ttl` it is cached
    /// forever.
    pub(super) async fn get(
        &self,
        ttl: Option<SignedDuration>,
        fetch: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Arc<T>, ProviderError> {
        let mut state = self.state.lock().await;
        let now = self.ambient.now();
        match &state.kept {
            Some((kept, since)) if ttl.is_none_or(|ttl| within(now, *since, ttl)) => Ok(kept.clone()),
            _ => state.fetch(&self.ambient, fetch).await,
        }
    }

    /// A document newer than `seen`, in which something was missing: one that another caller has fetched or, if the
    /// last such fetch was more than a minute ago, the result of `fetch`. Otherwise `None`.
    pub(super) async fn renewed(
        &self,
        seen: &Arc<T>,
        fetch: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Option<Arc<T>>, ProviderError> {
        let mut state = self.state.lock().await;
        let now = self.ambient.now();
        match &state.kept {
            Some((kept, _)) if !Arc::ptr_eq(kept, seen) => return Ok(Some(kept.clone())),
            _ => {}
        }
        if state.renewed.is_some_and(|since| within(now, since, RENEWAL)) {
            return Ok(None);
        }
        let fetched = state.fetch(&self.ambient, fetch).await;
        // Only now: a caller that disconnects before the answer does not count as a fetch.
        state.renewed = Some(self.ambient.now());
        fetched.map(Some)
    }
}

impl<T> State<T> {
    async fn fetch(
        &mut self,
        ambient: &Ambient,
        fetch: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Arc<T>, ProviderError> {
        match &self.failed {
            Some((error, since)) if within(ambient.now(), *since, PAUSE) => return Err(error.clone()),
            _ => {}
        }
        let fetched = fetch.await;
        let now = ambient.now();
        match fetched {
            Ok(value) => {
                let value = Arc::new(value);
                (self.kept, self.failed) = (Some((value.clone(), now)), None);
                Ok(value)
            }
            Err(error) => {
                self.failed = Some((error.clone(), now));
                Err(error)
            }
        }
    }
}

/// Whether `span` has not passed since. A clock that was set back ends it.
fn within(now: Timestamp, since: Timestamp, span: SignedDuration) -> bool {
    let elapsed = now.duration_since(since);
    !elapsed.is_negative() && elapsed < span
}

impl<T> std::fmt::Debug for Fetched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetched").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use gatewright_base::ManualClock;

    use super::*;

    struct Source {
        fetched: Fetched<u32>,
        clock: Arc<ManualClock>,
        calls: AtomicU32,
    }

    const TTL: Option<SignedDuration> = Some(SignedDuration::from_secs(3600));
    const DOWN: ProviderError = ProviderError::Unavailable("down");

    impl Source {
        fn new() -> Arc<Self> {
            let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 1);
            Arc::new(Self { fetched: Fetched::new(ambient), clock, calls: AtomicU32::new(0) })
        }

        async fn count(&self) -> Result<u32, ProviderError> {
            tokio::task::yield_now().await;
            Ok(self.calls.fetch_add(1, Ordering::SeqCst) + 1)
        }

        async fn fail(&self) -> Result<u32, ProviderError> {
            self.count().await.and(Err(DOWN))
        }

        fn pass(&self, seconds: i64) {
            self.clock.advance(SignedDuration::from_secs(seconds));
        }
    }

    #[tokio::test]
    async fn concurrent_callers_fetch_once() {
        let source = Source::new();
        let asks = (0..20).map(|_| {
            let source = source.clone();
            tokio::spawn(async move { source.fetched.get(TTL, source.count()).await.map(|value| *value) })
        });
        for ask in asks.collect::<Vec<_>>() {
            assert_eq!(ask.await.unwrap(), Ok(1));
        }
        source.pass(3599);
        assert_eq!(*source.fetched.get(TTL, source.count()).await.unwrap(), 1);
        source.pass(1);
        assert_eq!(*source.fetched.get(TTL, source.count()).await.unwrap(), 2, "its time is over");
        source.pass(1_000_000);
        assert_eq!(*source.fetched.get(None, source.count()).await.unwrap(), 2, "kept for good");
    }

    #[tokio::test]
    async fn a_failed_fetch_is_retried_but_not_by_every_waiting_caller() {
        let source = Source::new();
        let asks = (0..20).map(|_| {
            let source = source.clone();
            tokio::spawn(async move { source.fetched.get(TTL, source.fail()).await.map(|value| *value) })
        });
        for ask in asks.collect::<Vec<_>>() {
            assert_eq!(ask.await.unwrap(), Err(DOWN));
        }
        assert_eq!(source.calls.load(Ordering::SeqCst), 1);
        source.pass(5);
        assert_eq!(*source.fetched.get(TTL, source.count()).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn an_aborted_renewal_does_not_count() {
        let source = Source::new();
        let first = source.fetched.get(TTL, source.count()).await.unwrap();
        let mut broken_off = Box::pin(source.fetched.renewed(&first, source.count()));
        assert!(futures_util::poll!(&mut broken_off).is_pending());
        drop(broken_off);
        assert_eq!(*source.fetched.renewed(&first, source.count()).await.unwrap().unwrap(), 2);
    }

    #[tokio::test]
    async fn an_incomplete_document_is_renewed_at_most_once_a_minute() {
        let source = Source::new();
        let first = source.fetched.get(TTL, source.count()).await.unwrap();
        let second = source.fetched.renewed(&first, source.count()).await.unwrap().unwrap();
        assert_eq!(*second, 2);
        assert_eq!(source.fetched.renewed(&first, source.count()).await.unwrap(), Some(second.clone()), "seen by now");
        for _ in 0..1000 {
            assert_eq!(source.fetched.renewed(&second, source.count()).await.unwrap(), None);
        }
        source.pass(60);
        assert_eq!(source.fetched.renewed(&second, source.fail()).await, Err(DOWN));
        assert_eq!(
            source.fetched.get(TTL, source.count()).await.unwrap(),
            second,
            "a failed renewal takes nothing away"
        );
        assert_eq!(source.calls.load(Ordering::SeqCst), 3);
    }
}
