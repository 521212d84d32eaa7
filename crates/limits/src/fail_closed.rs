use std::error::Error as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::{Denied, StoreError, StoreFuture};

/// Calls a store with a time limit, and turns every failure into a refusal.
///
/// The failure is logged once when it begins and once when it ends, independent of the number of requests.
#[derive(Clone)]
pub(crate) struct FailClosed {
    pub(crate) timeout: Duration,
    failing: Arc<AtomicBool>,
}

impl FailClosed {
    /// How long a caller is sent away when the store cannot answer.
    pub(crate) const RETRY: Duration = Duration::from_secs(5);

    pub(crate) async fn ask<T>(&self, scope: &str, answer: StoreFuture<'_, T>) -> Result<T, Denied> {
        match self.wait(answer).await {
            Ok(answer) => {
                // Read before it is changed: if every request wrote it, its cache line would move from core to core.
                if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!(scope, "the rate-limit store answers again");
                }
                Ok(answer)
            }
            Err(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    let cause = error.source().map(ToString::to_string);
                    tracing::error!(scope, cause, "{error}: attempts are refused until it does");
                }
                Err(Denied::StoreDown { retry_after: Self::RETRY })
            }
        }
    }

    async fn wait<T>(&self, mut answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
        // A store in memory answers at once and needs no timer.
        let at_once = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        if let Poll::Ready(answer) = at_once {
            return answer;
        }
        let answer = tokio::time::timeout(self.timeout, answer).await;
        answer.unwrap_or_else(|_| Err(StoreError::new("no answer in time")))
    }
}

impl Default for FailClosed {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), failing: Arc::default() }
    }
}
