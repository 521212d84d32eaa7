use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;

use super::queue::{Queue, Tap};
use crate::EntityEvent;

/// How many events a handler's task takes from its queue at once.
const BATCH: usize = 64;

/// A handler on the bus. Dropping this does not end the handler, which runs until the bus ends.
pub struct Subscription {
    queue: Arc<Queue>,
    task: tokio::task::JoinHandle<()>,
}

impl Subscription {
    /// Ends the handler. Queued events are not handled; a running call is cancelled at its next await.
    pub fn cancel(self) {
        self.queue.close();
        self.task.abort();
    }

    /// How many events this handler lost because it was too slow.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

pub(super) fn spawn<F, Fut>(mut tap: Tap, panics: Arc<AtomicU64>, handler: F) -> Subscription
where
    F: Fn(Arc<EntityEvent>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let queue = tap.queue().clone();
    let task = tokio::spawn(async move {
        let mut batch = Vec::new();
        while tap.fill(&mut batch, BATCH).await {
            for entry in batch.drain(..) {
                let table = entry.event.shared_table().clone();
                // Both the call and the future that it returns may panic.
                let called = std::panic::catch_unwind(AssertUnwindSafe(|| handler(entry.event)));
                let finished = match called {
                    Ok(future) => AssertUnwindSafe(future).catch_unwind().await,
                    Err(panic) => Err(panic),
                };
                if finished.is_err() {
                    panics.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(table = &*table, "an event handler panicked; it continues with the next event");
                }
            }
        }
    });
    Subscription { queue, task }
}
