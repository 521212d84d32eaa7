//! Polls the async closure of a transaction on the thread that owns the connection.
//!
//! The statements of such a closure are never pending: they run when they are polled. If the future is pending anyway,
//! it waits for something else and blocks all other callers, so it gets a deadline.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::connection::OnThread;
use super::limit::{self, Limit};
use super::writer::{Job, Undo, merge, undoing};
use crate::tx::{AfterCommit, Inner, panic_message, run_action};
use crate::{Error, Tx};

/// How long a transaction may wait for others, and how long its statements may run.
#[derive(Clone, Copy)]
pub(super) struct Deadlines {
    pub(super) waiting: Duration,
    pub(super) statement: Duration,
}

thread_local! {
    static ON_THREAD: Cell<Option<(OnThread, Role)>> = const { Cell::new(None) };
}

/// The role of a thread that runs transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
}

/// Marks the calling thread as one that runs transactions.
pub(super) fn mark(on_thread: OnThread, role: Role) {
    ON_THREAD.set(Some((on_thread, role)));
}

/// Whether the calling thread is there to read.
pub(super) fn is_reader() -> bool {
    ON_THREAD.get().is_some_and(|(_, role)| role == Role::Reader)
}

/// Refuses to begin a transaction inside another one, which would wait for itself.
pub(super) fn refuse_nested() -> Result<(), Error> {
    if ON_THREAD.get().is_some() { Err(Error::Nested) } else { Ok(()) }
}

/// Refuses a read outside of the transaction on a reader's thread, because it may need the thread that it blocks. A
/// write's transaction may wait for a read, until its deadline: readers do not wait for the writer.
pub(super) fn refuse_beside_a_read() -> Result<(), Error> {
    if is_reader() { Err(Error::Nested) } else { Ok(()) }
}

/// A caller's closure with the channel to the caller.
pub(super) struct TxJob<F, T, E> {
    work: F,
    sender: Option<oneshot::Sender<Result<T, E>>>,
    result: Option<Result<T, E>>,
    after: Vec<AfterCommit>,
    waiting: Duration,
    limit: Limit,
    span: tracing::Span,
}

impl<F, T, E> TxJob<F, T, E>
where
    F: AsyncFn(&Tx) -> Result<T, E>,
    E: From<Error>,
{
    pub(super) fn new(work: F, deadlines: Deadlines) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (sender, answer) = oneshot::channel();
        let span = tracing::Span::current();
        let Deadlines { waiting, statement } = deadlines;
        let limit = Limit::of_time(statement);
        (Self { work, sender: Some(sender), result: None, after: Vec::new(), waiting, limit, span }, answer)
    }

    /// The same with this limit on its statements.
    pub(super) fn limited(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    fn abandoned(&self) -> bool {
        self.sender.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Runs the closure to its end. Returns whether its work is kept.
    fn poll_to_end(&mut self, on_thread: OnThread) -> bool {
        let tx = Tx::new(Inner::Sqlite(on_thread));
        let mut output = None;
        let ended = {
            let _entered = self.span.enter();
            let (work, mut sender) = (&self.work, self.sender.as_mut());
            let future = pin!(async { output = Some(work(&tx).await) });
            let mut gone = |context: &mut Context<'_>| {
                sender.as_mut().is_some_and(|sender| sender.poll_closed(context).is_ready())
            };
            limit::limited(self.limit.clone(), || block_on(future, &mut gone, self.waiting))
        };
        self.after = tx.after.into_inner();
        let result = ended.and_then(|()| output.ok_or(Error::Closed)).unwrap_or_else(|error| Err(error.into()));
        self.result.insert(result).is_ok()
    }
}

impl<F, T, E> Job for TxJob<F, T, E>
where
    F: AsyncFn(&Tx) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, on_thread: OnThread, undo: Undo) -> bool {
        // Changes of an earlier run were undone with its group.
        self.result = None;
        self.after.clear();
        if self.abandoned() {
            return true;
        }
        // An error of the savepoint counts like one of the closure; `result` shows which of the two it was.
        let work = || if self.poll_to_end(on_thread) { Ok(()) } else { Err(Failed(None)) };
        let (is_good, result) = undoing(on_thread, undo, work);
        if let Err(Failed(Some(error))) = result {
            self.result = Some(Err(E::from(error)));
        }
        is_good
    }

    fn finish(mut self: Box<Self>, outcome: Result<(), Error>) {
        let Some(sender) = self.sender.take() else { return };
        let result = merge(outcome, self.result.take());
        if result.is_ok() {
            let _entered = self.span.enter();
            self.after.drain(..).for_each(run_action);
        }
        let _gone = sender.send(result);
    }
}

/// Why changes are undone: the engine's error, or `None` if the closure's own error is stored elsewhere.
struct Failed(Option<Error>);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(Some(error))
    }
}

/// Runs the closure as a read, outside of any group.
pub(super) fn run_once<F, T, E>(job: &mut TxJob<F, T, E>)
where
    F: AsyncFn(&Tx) -> Result<T, E>,
    E: From<Error>,
{
    if let Some((on_thread, _)) = ON_THREAD.get()
        && !job.abandoned()
    {
        job.poll_to_end(on_thread);
        job.after.clear();
    }
}

/// Runs `work`, turning a panic into an error.
pub(super) fn contained<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Error::Panicked(panic_message(&*panic).to_owned())))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` on this thread. Fails if it panics, if its caller is `gone`, or if it is still pending `wait` after
/// it was first pending. Not generic, so that it is compiled once and not for each transaction of a program.
fn block_on(
    mut future: Pin<&mut dyn Future<Output = ()>>,
    gone: &mut dyn FnMut(&mut Context<'_>) -> bool,
    wait: Duration,
) -> Result<(), Error> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut give_up = None;
    loop {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(())) => return Ok(()),
            Ok(Poll::Pending) => {}
            Err(panic) => return Err(Error::Panicked(panic_message(&*panic).to_owned())),
        }
        let give_up = *give_up.get_or_insert_with(|| Instant::now() + wait);
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() || gone(&mut context) {
            return Err(Error::Deadline);
        }
        std::thread::park_timeout(left);
    }
}
