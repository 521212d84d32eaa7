//! The one thread that writes.
//!
//! It takes a job from its [`queue`](super::queue), begins a transaction, and continues with further jobs until none is waiting or the
//! group is full; then it commits once and answers them all. A commit costs a flush of the disk. Sharing one makes writes many times
//! cheaper, and an acknowledged write is still on the disk.
//!
//! Few jobs fail after they have changed something. So a group runs without savepoints, which cost as much as a small write.
//! If such a job fails, the group is rolled back and runs again, each job in a savepoint. The next groups use savepoints
//! too, so that a caller whose jobs keep failing does not cause all writes to run twice.

use std::sync::{Arc, mpsc as threads};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::checkpoint::{Checkpointer, Mode};
use super::connection::OnThread;
use super::files::Files;
use super::limit::{self, Limit};
use super::queue::Queue;
use super::{here, task};
use crate::tx::run_action;
use crate::{Error, Share};

/// The most jobs that share a commit.
const GROUP: usize = 256;
/// The longest that a job waits for others to join its commit.
const GROUP_TIME: Duration = Duration::from_millis(5);
/// How many groups run with savepoints after one that had to run again.
const CAREFUL_GROUPS: u32 = 64;

/// A piece of work inside the group's transaction. It may run again if the group's commit fails.
pub(super) trait Job: Send {
    /// Does the work and keeps the result. `false` if it failed and left changes, which must be undone with the group.
    fn run(&mut self, on_thread: OnThread, undo: Undo) -> bool;
    /// Answers the caller, after the commit or after it failed.
    fn finish(self: Box<Self>, outcome: Result<(), Error>);
}

/// How the changes of a job that fails are undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undo {
    /// By its own savepoint.
    Alone,
    /// With all of its group.
    Together,
}

pub(super) struct Writer {
    queue: Arc<Queue>,
    /// Disconnected when the thread has closed its connection.
    ended: Mutex<threads::Receiver<()>>,
}

impl Writer {
    /// Passes `connection` to a separate thread, which ends when the handle is closed or dropped.
    pub(super) fn start(
        connection: Connection,
        mut checkpointer: Checkpointer,
        files: Arc<Files>,
        runtime: Handle,
    ) -> Self {
        let queue = Arc::<Queue>::default();
        let (running, ended) = threads::channel();
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn({
                let queue = queue.clone();
                move || {
                    let _timers = runtime.enter();
                    let _served = Served(&queue);
                    let on_thread = OnThread::settle(connection);
                    task::mark(on_thread, task::Role::Writer);
                    serve(on_thread, &queue, &files, &mut checkpointer);
                    drop(checkpointer);
                    if files.may_move_log() {
                        empty_log(on_thread);
                    } else if let Err(error) = on_thread.keep_log() {
                        tracing::warn!(%error, "the write-ahead log of another process may be removed");
                    }
                    on_thread.close();
                    drop(running);
                }
            })
            .expect("the system can start a thread");
        Self { queue, ended: Mutex::new(ended) }
    }

    pub(super) fn submit(&self, share: Share, job: Box<dyn Job>) -> Result<(), Error> {
        self.queue.push(share, job)
    }

    /// Accepts no more jobs, and waits up to `limit` for the queued ones, for the write-ahead log to be moved into the
    /// database file, and for the connection to close. Blocks the calling thread.
    pub(super) fn close(&self, limit: Duration) {
        self.queue.close();
        let ended = self.ended.lock().recv_timeout(limit);
        if ended == Err(threads::RecvTimeoutError::Timeout) && !limit.is_zero() {
            tracing::warn!("the database was not closed in time; its newest data is in the -wal file beside it");
        }
    }
}

/// Makes callers fail if there is no writer, even if its thread panics.
struct Served<'a>(&'a Queue);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn serve(on_thread: OnThread, jobs: &Queue, files: &Files, checkpointer: &mut Checkpointer) {
    let mut group = Vec::with_capacity(GROUP);
    let mut careful = 0_u32;
    while let Some(first) = jobs.next() {
        if let Err(error) = files.known().and_then(|()| on_thread.control("BEGIN IMMEDIATE")) {
            first.finish(Err(error));
            continue;
        }
        let undo = if careful == 0 { Undo::Together } else { Undo::Alone };
        careful = careful.saturating_sub(1);
        let began = Instant::now();
        let mut next = Some(first);
        while let Some(mut job) = next.take() {
            let ran = Instant::now();
            on_thread.take_written();
            let is_good = job.run(on_thread, undo);
            jobs.took(ran.elapsed(), on_thread.take_written());
            group.push(job);
            // A job that ended the transaction took the earlier ones' work with it.
            if on_thread.is_autocommit() {
                break;
            }
            if !is_good {
                // If it is the only job in its group, only its own work is lost.
                let is_alone = group.len() == 1;
                if !is_alone {
                    careful = CAREFUL_GROUPS;
                }
                run_again(on_thread, &mut group, is_alone);
                break;
            }
            if group.len() < GROUP && began.elapsed() < GROUP_TIME {
                next = jobs.waiting();
            }
        }
        commit(on_thread, files, &mut group);
        checkpointer.committed(on_thread);
    }
}

/// Undoes a group and runs it again, each job in a savepoint; or only undoes it, if its only job has failed finally.
fn run_again(on_thread: OnThread, group: &mut [Box<dyn Job>], is_failed: bool) {
    undo(on_thread);
    if let Err(error) = on_thread.control("BEGIN IMMEDIATE") {
        // Nothing is open then, and `commit` runs the jobs one by one.
        tracing::debug!(%error, "a group could not begin again");
        return;
    }
    if is_failed {
        return;
    }
    tracing::debug!(jobs = group.len(), "a job failed after it had changed something; running its group again");
    for job in group {
        job.run(on_thread, Undo::Alone);
        if on_thread.is_autocommit() {
            return;
        }
    }
}

/// Moves all of the write-ahead log into the database file, so that this file is a complete copy.
fn empty_log(on_thread: OnThread) {
    if let Err(error) = on_thread.checkpoint(Mode::Truncate) {
        tracing::warn!(%error, "the newest data stays in the -wal file: copy it together with the database file");
    }
}

fn commit(on_thread: OnThread, files: &Files, group: &mut Vec<Box<dyn Job>>) {
    let broken = on_thread.is_autocommit();
    let outcome = if broken { Err(ended()) } else { committed(on_thread, files) };
    match outcome {
        Ok(()) => group.drain(..).for_each(|job| job.finish(Ok(()))),
        // They are stored in files that nobody finds any more. Another run would fail too.
        Err(lost @ Error::FileLost(_)) => group.drain(..).for_each(|job| job.finish(Err(lost.clone()))),
        Err(error) => {
            undo(on_thread);
            if group.len() == 1 {
                group.drain(..).for_each(|job| job.finish(Err(error.clone())));
            } else {
                tracing::debug!(jobs = group.len(), error = %error, "a group commit failed; running its jobs one by one");
                group.drain(..).for_each(|job| alone(on_thread, files, job));
            }
        }
    }
}

/// Commits, and checks that what was committed is in files that others find.
fn committed(on_thread: OnThread, files: &Files) -> Result<(), Error> {
    on_thread.control("COMMIT").inspect(|()| here::note_commit())?;
    files.check()
}

/// Runs one job in its own transaction, after its group failed.
fn alone(on_thread: OnThread, files: &Files, mut job: Box<dyn Job>) {
    let mut run = || {
        files.known()?;
        on_thread.control("BEGIN IMMEDIATE")?;
        job.run(on_thread, Undo::Alone);
        if on_thread.is_autocommit() { Err(ended()) } else { committed(on_thread, files) }
    };
    let outcome = run();
    undo(on_thread);
    job.finish(outcome);
}

fn undo(on_thread: OnThread) {
    if !on_thread.is_autocommit()
        && let Err(error) = on_thread.control("ROLLBACK")
    {
        tracing::error!(error = %error, "a failed transaction could not be rolled back");
    }
}

fn ended() -> Error {
    Error::other("transaction", "a statement ended the transaction it was part of (OR ROLLBACK, or RAISE)")
}

/// Runs `work`, and undoes its changes if it fails. Returns `false` with the result if the group must undo them.
pub(super) fn undoing<T, E: From<Error>>(
    on_thread: OnThread,
    undo: Undo,
    work: impl FnOnce() -> Result<T, E>,
) -> (bool, Result<T, E>) {
    if undo == Undo::Alone {
        return (true, in_savepoint(on_thread, work));
    }
    on_thread.take_changed();
    let result = work();
    let is_good = result.is_ok() || !on_thread.take_changed();
    (is_good, result)
}

fn in_savepoint<T, E: From<Error>>(on_thread: OnThread, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    on_thread.control("SAVEPOINT work")?;
    let result = work();
    // A statement with OR ROLLBACK may have ended everything, the savepoint included.
    if !on_thread.is_autocommit() {
        if result.is_err() {
            on_thread.control("ROLLBACK TO work")?;
        }
        on_thread.control("RELEASE work")?;
    }
    result
}

/// The caller's result: the error of its own work, or else that of the commit.
pub(super) fn merge<T, E: From<Error>>(outcome: Result<(), Error>, result: Option<Result<T, E>>) -> Result<T, E> {
    match (result, outcome) {
        (Some(Err(own)), _) => Err(own),
        (_, Err(commit)) => Err(commit.into()),
        (Some(Ok(value)), Ok(())) => Ok(value),
        (None, Ok(())) => Err(Error::Closed.into()),
    }
}

/// One statement. SQLite undoes a failed statement itself. Only a statement whose rows are read afterwards may have to be
/// undone: reading them may fail after the change was made.
pub(super) struct StatementJob<T, R, C> {
    run: R,
    after_commit: Option<C>,
    sender: Option<oneshot::Sender<Result<T, Error>>>,
    result: Option<Result<T, Error>>,
    limit: Duration,
    returning: bool,
}

impl<T, R, C> StatementJob<T, R, C> {
    pub(super) fn new(
        run: R,
        after_commit: C,
        limit: Duration,
        returning: bool,
    ) -> (Self, oneshot::Receiver<Result<T, Error>>) {
        let (sender, answer) = oneshot::channel();
        let (after_commit, sender) = (Some(after_commit), Some(sender));
        (Self { run, after_commit, sender, result: None, limit, returning }, answer)
    }
}

impl<T, R, C> Job for StatementJob<T, R, C>
where
    T: Send,
    R: Fn(&OnThread) -> Result<T, Error> + Send,
    C: FnOnce(&T) + Send,
{
    fn run(&mut self, on_thread: OnThread, undo: Undo) -> bool {
        // Changes of an earlier run were undone with its group.
        self.result = None;
        if self.sender.as_ref().is_none_or(oneshot::Sender::is_closed) {
            return true;
        }
        let limit = Limit::of_time(self.limit);
        let work = || limit::limited(limit, || task::contained(|| (self.run)(&on_thread)));
        let (is_good, result) = if self.returning { undoing(on_thread, undo, work) } else { (true, work()) };
        self.result = Some(result);
        is_good
    }

    fn finish(mut self: Box<Self>, outcome: Result<(), Error>) {
        let Some(sender) = self.sender.take() else { return };
        let result = merge(outcome, self.result.take());
        if let (Ok(value), Some(after_commit)) = (&result, self.after_commit.take()) {
            run_action(|| after_commit(value));
        }
        let _gone = sender.send(result);
    }
}
