//! Background work: jobs that a request starts and does not wait for, and requests that complete even if their caller
//! disconnects.
//!
//! The time of an answer must not reveal whether there is an account for an address, or whether a mail server is slow.
//! So requests only queue such work, which takes the same short time in every case.
//!
//! A handler that changes something may write more than once. If its caller disconnects in between, the server drops the
//! handler's future, and only a part of the change would be stored. So [`UncutLayer`] runs every request that may change
//! something in a task of its own.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::{Next as Onward, from_fn_with_state};
use axum::response::Response;
use axum::routing::MethodRouter;
use gatewright_base::Shares;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use gatewright_http::locale::Locale;
use gatewright_http::{ClientAddr, Counted};
use http::Method;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::Layer;
use tracing::Instrument;

/// Tasks off the requests' path, bounded in number. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    running: Arc<watch::Sender<usize>>,
    /// Requests in a task of their own.
    uncut: Arc<watch::Sender<usize>>,
    /// By requester.
    shares: Arc<Shares<String>>,
    dropped: Arc<Mutex<Dropped>>,
}

/// Limit of concurrent tasks. Further ones are dropped: users who wait for a mail request another.
const CAPACITY: usize = 1000;
/// Most tasks at a time of one requester.
const SHARE: usize = 40;
/// The minimum time between two log lines about dropped tasks.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Dropped tasks that are not logged yet.
#[derive(Debug, Default)]
struct Dropped {
    count: u64,
    said_at: Option<Instant>,
}

impl Background {
    pub(crate) fn new() -> Self {
        Self {
            running: Arc::new(watch::Sender::new(0)),
            uncut: Arc::new(watch::Sender::new(0)),
            shares: Arc::new(Shares::new(SHARE)),
            dropped: Arc::default(),
        }
    }

    /// The same as [`run`](Self::run) for work that any client can request. For one requester, an IPv4 address or an IPv6 /48, the
    /// number of concurrent tasks is limited, so that a flood does not displace others' work. Loopback addresses have no share.
    pub(crate) fn run_for(
        &self,
        requester: Option<IpAddr>,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let Some(key) = Counted::Jobs.share_key(ClientAddr::new(requester)) else {
            self.run(what, work);
            return;
        };
        let Some(share) = self.shares.try_take(key) else {
            self.drop_job(what, "limit of this requester reached");
            return;
        };
        self.run(what, async move {
            let _share = share;
            work.await;
        });
    }

    /// Logs that a job is dropped, with all since the last line.
    fn drop_job(&self, what: &'static str, reason: &'static str) {
        let mut dropped = self.dropped.lock();
        dropped.count += 1;
        if dropped.said_at.is_none_or(|said_at| said_at.elapsed() >= BETWEEN_LINES) {
            let count = std::mem::take(&mut dropped.count);
            dropped.said_at = Some(Instant::now());
            tracing::error!(what, reason, count, capacity = CAPACITY, "background queue full; job dropped");
        }
    }

    /// Starts `work`, named `what` in the log. The runtime logs a panic in it, which has no other effect.
    pub(crate) fn run(&self, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let admitted = self.running.send_if_modified(|running| {
            let admitted = *running < CAPACITY;
            *running += usize::from(admitted);
            admitted
        });
        if !admitted {
            self.drop_job(what, "global limit reached");
            return;
        }
        let running = Running(self.running.clone());
        // A mail is written in the language of the request that caused it.
        tokio::spawn(Locale::current().scope(async move {
            let _running = running;
            work.await;
        }));
    }

    /// Waits for `work`, which runs to its end even if the caller is dropped: for work that must not stay half done.
    pub(crate) async fn uncut<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (counted, span) = (Running::count(&self.uncut), tracing::Span::current());
        let counting = async move {
            let _counted = counted;
            work.await
        };
        match tokio::spawn(Locale::current().scope(counting.instrument(span))).await {
            Ok(output) => output,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // A task is only aborted when the runtime shuts down.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns once nothing runs, or after `at_most`.
    pub(crate) async fn settle(&self, at_most: Duration) {
        let (mut uncut, mut running) = (self.uncut.subscribe(), self.running.subscribe());
        let nothing = async {
            // The senders live as long as this handle does. A request may start a job.
            let _ = uncut.wait_for(|uncut| *uncut == 0).await;
            let _ = running.wait_for(|running| *running == 0).await;
        };
        let _ = tokio::time::timeout(at_most, nothing).await;
    }
}

/// Runs every request that may change something to its end, even if its caller disconnects: all except GET, HEAD, OPTIONS
/// and TRACE. The few GETs that change something are wrapped in [`uncut_get`].
#[derive(Debug, Clone)]
pub(crate) struct UncutLayer(pub(crate) Background);

impl<S> Layer<S> for UncutLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for UncutLayer {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        if request.method().is_safe() {
            return inner.pass(request);
        }
        let (background, called) = (self.0.clone(), inner.take());
        answer(async move { background.uncut(called.call(request)).await })
    }
}

/// Runs the GET of `route`, which changes something, to its end.
pub(crate) fn uncut_get<S: Clone + Send + Sync + 'static>(
    background: &Background,
    route: MethodRouter<S>,
) -> MethodRouter<S> {
    route.layer(from_fn_with_state(background.clone(), run_uncut))
}

async fn run_uncut(State(background): State<Background>, request: Request, onward: Onward) -> Response {
    if *request.method() == Method::GET {
        return background.uncut(onward.run(request)).await;
    }
    onward.run(request).await
}

/// Counts a task until it ends, however it ends.
struct Running(Arc<watch::Sender<usize>>);

impl Running {
    fn count(tasks: &Arc<watch::Sender<usize>>) -> Self {
        tasks.send_modify(|running| *running += 1);
        Self(tasks.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_no_longer_counts() {
        let background = Background::new();
        background.run("a bug", async { panic!("a bug in a host's mailer") });
        background.settle(Duration::from_secs(10)).await;
        assert_eq!(*background.running.borrow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_one_network_leaves_room_for_others() {
        let (background, started) = (Background::new(), Arc::new(AtomicUsize::new(0)));
        let count = |requester: &str, background: &Background| {
            let started = started.clone();
            background.run_for(requester.parse().ok(), "a password reset", async move {
                started.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
            });
        };
        for host in 0..2 * CAPACITY {
            count(&format!("2001:db8:0:{host:x}::1"), &background);
        }
        background.settle(Duration::from_secs(1)).await;
        assert_eq!(started.load(Ordering::SeqCst), SHARE, "the addresses of a /48 share");
        count("2001:db8:1::1", &background);
        count("192.0.2.1", &background);
        background.settle(Duration::from_secs(1)).await;
        assert_eq!(started.load(Ordering::SeqCst), SHARE + 2);
    }

    #[tokio::test]
    async fn finished_work_frees_its_requesters_share() {
        let (background, started) = (Background::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 {
            for _ in 0..SHARE {
                let started = started.clone();
                let count = async move {
                    started.fetch_add(1, Ordering::SeqCst);
                };
                background.run_for("192.0.2.1".parse().ok(), "a password reset", count);
            }
            background.settle(Duration::from_secs(10)).await;
        }
        assert_eq!(started.load(Ordering::SeqCst), 2 * SHARE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_bounded() {
        let (background, started) = (Background::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..CAPACITY + 50 {
            let started = started.clone();
            background.run("a mail", async move {
                started.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
            });
        }
        background.settle(Duration::from_secs(1)).await;
        assert_eq!(started.load(Ordering::SeqCst), CAPACITY);
    }
}
