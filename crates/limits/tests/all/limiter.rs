use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::body::to_bytes;
use axum::response::IntoResponse as _;
use gatewright_base::Ambient;
use gatewright_limits::{Denied, Key, Limiter, MemoryStore, Policy, Store, StoreError, StoreFuture, Verdict};
use jiff::{SignedDuration, Timestamp};

fn policy(max: u32) -> Policy {
    Policy::new(max, Duration::from_mins(1), Duration::from_mins(10))
}

/// A scripted store that fails, hangs or answers.
#[derive(Default)]
struct Moody {
    fails: AtomicBool,
    hangs: AtomicBool,
    asked: AtomicU32,
}

impl Store for Moody {
    fn count<'a>(&'a self, _: &'a Key, _: &'a Policy) -> StoreFuture<'a, (Verdict, i64)> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if self.fails.load(Ordering::Relaxed) {
                return Err(StoreError::new("connection refused"));
            }
            Ok((Verdict::Admitted, 0))
        })
    }

    fn give_back<'a>(&'a self, _: &'a Key, _: &'a Policy, _: i64) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn forget<'a>(&'a self, _: &'a Key) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(StoreError::new("connection refused")) })
    }

    fn sweep(&self) -> StoreFuture<'_, u64> {
        Box::pin(async { Ok(0) })
    }
}

#[tokio::test]
async fn a_refusal_has_a_status_and_retry_after() {
    let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let limiter = Limiter::in_memory("login_ip", policy(2), ambient);
    assert_eq!(limiter.attempt("203.0.113.7").await, Ok(()));
    assert_eq!(limiter.attempt("203.0.113.7").await, Ok(()));
    clock.advance(SignedDuration::from_millis(500));
    let denied = limiter.attempt("203.0.113.7").await.unwrap_err();
    clock.advance(SignedDuration::from_millis(500));
    assert_eq!(limiter.attempt("203.0.113.7").await.unwrap_err().retry_after(), Duration::from_millis(599_500));
    assert_eq!(limiter.attempt("203.0.113.8").await, Ok(()));

    let response = denied.into_response();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "600"));
    assert_eq!(to_bytes(response.into_body(), 100).await.unwrap(), "rate limit exceeded");
}

#[tokio::test]
async fn scopes_in_one_store_count_apart_and_clones_together() {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(ambient));
    let login = Limiter::new("login_ip", policy(1), store.clone());
    let register = Limiter::new("register", policy(1), store);
    assert!(login.attempt("k").await.is_ok());
    assert!(login.clone().attempt("k").await.is_err());
    assert!(register.attempt("k").await.is_ok());
    login.forget("k").await.unwrap();
    assert!(login.attempt("k").await.is_ok());
    assert!(register.attempt("k").await.is_err());
}

#[tokio::test]
async fn a_store_that_fails_refuses_for_a_short_while_and_recovers() {
    let store = Arc::new(Moody::default());
    let limiter = Limiter::new("s", policy(1), store.clone());
    store.fails.store(true, Ordering::Relaxed);
    let denied = Err(Denied::StoreDown { retry_after: Limiter::STORE_DOWN_RETRY });
    assert_eq!(limiter.attempt("k").await, denied);
    assert_eq!(limiter.attempt("k").await, denied);
    store.fails.store(false, Ordering::Relaxed);
    assert_eq!(limiter.attempt("k").await, Ok(()));
    assert!(limiter.forget("k").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_refuses_after_the_timeout() {
    let store = Arc::new(Moody::default());
    store.hangs.store(true, Ordering::Relaxed);
    let limiter = Limiter::new("s", policy(1), store).store_timeout(Duration::from_secs(2));
    let begun = tokio::time::Instant::now();
    assert_eq!(limiter.attempt("k").await, Err(Denied::StoreDown { retry_after: Limiter::STORE_DOWN_RETRY }));
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
}

#[tokio::test]
async fn a_dropped_call_does_not_break_the_limiter() {
    let store = Arc::new(Moody::default());
    store.hangs.store(true, Ordering::Relaxed);
    let limiter = Limiter::new("s", policy(1), store.clone());
    for _ in 0..100 {
        let mut call = Box::pin(limiter.attempt("k"));
        assert!(matches!(poll_once(&mut call), std::task::Poll::Pending));
        drop(call);
    }
    store.hangs.store(false, Ordering::Relaxed);
    assert_eq!(limiter.attempt("k").await, Ok(()));
    assert_eq!(store.asked.load(Ordering::Relaxed), 101);
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context)
}

#[tokio::test]
async fn dev_mode_admits_everything_and_never_calls_the_store() {
    let store = Arc::new(Moody::default());
    store.fails.store(true, Ordering::Relaxed);
    let limiter = Limiter::new("s", policy(1), store.clone()).dev_mode(true);
    for _ in 0..50 {
        assert_eq!(limiter.attempt("k").await, Ok(()));
    }
    assert_eq!(store.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn keys_of_a_megabyte_count_and_stay_small() {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let limiter = Limiter::in_memory("s", policy(1), ambient);
    let (one, two) = ("x".repeat(1_000_000), "x".repeat(1_000_001));
    assert!(limiter.attempt(&one).await.is_ok());
    assert!(limiter.attempt(&two).await.is_ok());
    assert!(limiter.attempt(&one).await.is_err());
}
