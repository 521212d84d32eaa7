use futures_util::future::{BoxFuture, LocalBoxFuture};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::LocalPoolHandle;
use tracing::Instrument;

use super::transaction::Phase;
use crate::Error;
use crate::tx::panic_message;

/// Callers' closures may be `!Send`: each runs completely on one of these threads.
#[derive(Clone)]
pub(super) struct Threads(LocalPoolHandle);

impl Threads {
    /// One for each processor.
    pub(super) fn new() -> Self {
        Self(LocalPoolHandle::new(std::thread::available_parallelism().map_or(2, std::num::NonZero::get)))
    }

    /// Runs a closure to its end on one of the threads.
    pub(super) async fn run<T, E, F>(&self, phase: Phase, work: F) -> Result<T, E>
    where
        F: AsyncFnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let task = self.spawn(Box::new(move || {
            Box::pin(async move {
                let _gone = sender.send(work().await);
            })
        }));
        join(task, phase).await?;
        answer.await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }

    fn spawn(&self, make: Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>) -> JoinHandle<()> {
        let span = tracing::Span::current();
        self.0.spawn_pinned(move || make().instrument(span))
    }
}

/// Waits for a task. Dropping the wait drops the task, and with it its transaction, unless that is already being committed:
/// then it continues to its end.
fn join(task: JoinHandle<()>, phase: Phase) -> BoxFuture<'static, Result<(), Error>> {
    struct EndOnDrop(JoinHandle<()>, Phase);
    impl Drop for EndOnDrop {
        fn drop(&mut self) {
            if self.1.abandon() {
                self.0.abort();
            }
        }
    }
    let mut task = EndOnDrop(task, phase);
    Box::pin(async move { (&mut task.0).await.map_err(ended) })
}

/// Why a task has no result.
pub(super) fn ended(failed: JoinError) -> Error {
    if !failed.is_panic() {
        return Error::Closed;
    }
    Error::Panicked(panic_message(&*failed.into_panic()).to_owned())
}
