//! Background work: jobs that a request starts and does not wait for, and work that completes even if the caller
//! disconnects.
//!
//! The time of an answer must not reveal whether there is an account for an address, or whether a mail server is slow.
//! So requests only queue such work, which takes the same short time in every case.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use gatewright_http::locale::Locale;
use tokio::sync::watch;
use tracing::Instrument;

/// Tasks off the requests' path, bounded in number. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Background(Arc<watch::Sender<usize>>);

/// Most tasks at a time. What comes beyond is dropped: whoever waits for a mail asks again.
const CAPACITY: usize = 1000;

impl Background {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Starts `work`, named `what` in the log. A panic in it is logged by the runtime and goes no further.
    pub(crate) fn run(&self, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let admitted = self.0.send_if_modified(|running| {
            let admitted = *running < CAPACITY;
            *running += usize::from(admitted);
            admitted
        });
        if !admitted {
            tracing::error!(what, capacity = CAPACITY, "background queue full; job dropped");
            return;
        }
        let running = Running(self.0.clone());
        // A mail is written in the language of the request that caused it.
        tokio::spawn(Locale::current().scope(async move {
            let _running = running;
            work.await;
        }));
    }

    /// Returns once nothing runs, or after `at_most`.
    pub(crate) async fn settle(&self, at_most: Duration) {
        let mut running = self.0.subscribe();
        // The sender lives as long as this handle does.
        let _ = tokio::time::timeout(at_most, running.wait_for(|running| *running == 0)).await;
    }
}

/// Waits for `work`, which goes on to its end if whoever waits goes away: for what is begun in one place and ended in another.
pub(crate) async fn to_its_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let span = tracing::Span::current();
    match tokio::spawn(Locale::current().scope(work.instrument(span))).await {
        Ok(output) => output,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Only a runtime that is shutting down cancels a task that nobody aborts.
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
    async fn what_panics_is_counted_out() {
        let background = Background::new();
        background.run("a bug", async { panic!("a bug in a host's mailer") });
        background.settle(Duration::from_secs(10)).await;
        assert_eq!(*background.0.borrow(), 0);
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
