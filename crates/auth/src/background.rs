//! Background work: jobs that a request starts and does not wait for, and work that completes even if the caller
//! disconnects.
//!
//! The time of an answer must not reveal whether there is an account for an address, or whether a mail server is slow.
//! So requests only queue such work, which takes the same short time in every case.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Shares;
use gatewright_http::ClientAddr;
use gatewright_http::locale::Locale;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;

/// Tasks off the requests' path, bounded in number. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    running: Arc<watch::Sender<usize>>,
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
        Self { running: Arc::new(watch::Sender::new(0)), shares: Arc::new(Shares::new(SHARE)), dropped: Arc::default() }
    }

    /// The same as [`run`](Self::run) for work that any client can request. For one requester, an IPv4 address or an IPv6 /48, the
    /// number of concurrent tasks is limited, so that a flood does not displace others' work. Loopback addresses have no share.
    pub(crate) fn run_for(
        &self,
        requester: Option<IpAddr>,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let Some(key) = ClientAddr::new(requester).share_key() else {
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

    /// Returns once nothing runs, or after `at_most`.
    pub(crate) async fn settle(&self, at_most: Duration) {
        let mut running = self.running.subscribe();
        // The sender lives as long as this handle does.
        let _ = tokio::time::timeout(at_most, running.wait_for(|running| *running == 0)).await;
    }
}

/// Waits for `work`, which runs to its end even if the caller is dropped: for work that must not stay half done.
pub(crate) async fn to_its_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let span = tracing::Span::current();
    match tokio::spawn(Locale::current().scope(work.instrument(span))).await {
        Ok(output) => output,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // A task is only aborted when the runtime shuts down.
        Err(_) => std::future::pending().await,
    }
}

/// Counts a task until it ends, however it ends.
struct Running(Arc<watch::Sender<usize>>);

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
