//! Checkpoints the write-ahead log into the database file, on a separate thread.
//!
//! A passive checkpoint runs while others write. Their writes stay in the log, and SQLite restarts the log only when all of it
//! has been moved. So if the log is long, the writer moves the short rest itself, between two commits. If the thread cannot
//! keep up, the writer waits for it and then moves everything: that limits the log. A read transaction prevents a restart of
//! the log as long as it lasts; the statement timeout limits that. Snapshots that are kept between short reads are ended for
//! it ([`Here::pause`]).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::connection::OnThread;
use super::error::classify;
use super::files::Files;
use super::here::Here;
use crate::Error;

/// Number of unmoved pages that justifies a checkpoint: about 8 MB.
const WORTH_MOVING: i64 = 2_000;
/// Number of pages in the log after which it should restart: about 40 MB.
const LONG: i64 = 10_000;
/// Number of pages, in the log or not yet moved, for which the writer stops and waits: about 80 MB.
const TOO_LONG: i64 = 20_000;
/// How many pages a long log grows before the writer checks again how much of it has been moved.
const LOOK_EVERY: i64 = 100;
/// How often the files are checked while nothing is written.
const CHECK_FILES: Duration = Duration::from_secs(2);

/// How a checkpoint treats other connections.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    /// Only counts the pages.
    Count,
    /// Moves as much as possible without waiting.
    Passive,
    /// Waits for readers and writers, moves everything and truncates the log file.
    Truncate,
}

/// The log's length in pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    pages: i64,
    moved: i64,
}

impl Log {
    fn rest(self) -> i64 {
        self.pages - self.moved
    }
}

pub(super) fn checkpoint(connection: &Connection, mode: Mode) -> Result<Log, Error> {
    let sql = match mode {
        Mode::Count => "PRAGMA wal_checkpoint(NOOP)",
        Mode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Mode::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let done = connection.prepare_cached(sql).and_then(|mut statement| statement.query_row([], read));
    let (busy, pages, moved): (bool, i64, i64) = done.map_err(|error| classify(error, sql))?;
    match mode {
        Mode::Truncate if busy => Err(Error::Busy),
        Mode::Count | Mode::Passive | Mode::Truncate => Ok(Log { pages, moved }),
    }
}

/// The thread that moves the log, as its writer sees it.
pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Connections that may keep a snapshot between reads.
    here: Arc<Here>,
    /// The log's length at which the writer moves the rest next.
    due: i64,
    /// The log's length at which the writer looks next at how much has been moved.
    look: i64,
}

#[derive(Default)]
struct Shared {
    order: Mutex<Order>,
    changed: Condvar,
    /// Held during a checkpoint: one at a time.
    moving: Mutex<()>,
}

#[derive(Default, PartialEq, Eq)]
enum Order {
    #[default]
    Wait,
    Move,
    End,
}

impl Checkpointer {
    /// Passes `connection` to a separate thread, which ends when the handle is dropped.
    pub(super) fn start(connection: Connection, here: Arc<Here>, files: Arc<Files>) -> Self {
        let shared = Arc::<Shared>::default();
        let thread = std::thread::Builder::new()
            .name("sqlite-checkpoint".to_owned())
            .spawn({
                let (shared, here) = (shared.clone(), here.clone());
                move || {
                    let mut is_moving_log = true;
                    while let Some(woken) = shared.wait() {
                        let is_lost = files.check().is_err();
                        let _alone = shared.moving.lock();
                        if is_lost && std::mem::replace(&mut is_moving_log, false) {
                            save(&connection, &here, &files);
                        } else if !is_lost && woken == Order::Move {
                            logged(checkpoint(&connection, Mode::Passive));
                        }
                    }
                }
            })
            .expect("the system can start a thread");
        Self { shared, thread: Some(thread), here, due: LONG, look: WORTH_MOVING }
    }

    /// After a commit on the writer's thread: has the log moved when that is worth it.
    pub(super) fn committed(&mut self, writer: OnThread) {
        // Each commit reports the log's length. How much of it has been moved needs a statement, which costs as much as
        // a small write.
        self.here.resume();
        let pages = writer.log_pages();
        if pages < WORTH_MOVING {
            (self.due, self.look) = (LONG, WORTH_MOVING);
        }
        if pages < self.look {
            return;
        }
        self.look = pages + LOOK_EVERY;
        let Some(log) = logged(writer.checkpoint(Mode::Count)) else { return };
        if log.rest() >= WORTH_MOVING {
            self.shared.set_order(Order::Move);
        }
        if log.pages < LONG {
            self.due = LONG;
        }
        // A thread that keeps up but never finishes limits the rest, but not the log, which only restarts when all of
        // it has been moved.
        let is_too_long = log.rest() >= TOO_LONG || log.pages >= self.due.max(TOO_LONG);
        let alone = if is_too_long {
            Some(self.shared.moving.lock())
        } else if log.pages >= self.due && log.rest() < WORTH_MOVING {
            self.shared.moving.try_lock()
        } else {
            None
        };
        if alone.is_some() {
            // Until the next commit, which restarts the log if no reader uses it.
            self.here.pause();
            logged(writer.checkpoint(Mode::Passive));
            // If a reader prevents the restart of the log, another attempt after each commit would be useless.
            self.due = log.pages + WORTH_MOVING;
        }
    }
}

/// Moves what was written before a file was lost into the database file that is open: all of it, if only the log is lost.
/// Otherwise a log of this database would remain beside another one, which SQLite would read as that one's.
fn save(connection: &Connection, here: &Here, files: &Files) {
    here.pause();
    if !files.may_move_log() {
        tracing::error!(
            "another process has begun another write-ahead log: what is only in the lost one cannot be saved"
        );
    } else if logged(checkpoint(connection, Mode::Truncate)).is_some() {
        tracing::warn!("what the write-ahead log had was moved into the database file that this server had opened");
    }
}

fn logged(outcome: Result<Log, Error>) -> Option<Log> {
    outcome.inspect_err(|error| tracing::warn!(%error, "cannot move the write-ahead log into the database file")).ok()
}

impl Drop for Checkpointer {
    /// Waits for the thread to close its connection.
    fn drop(&mut self) {
        self.shared.set_order(Order::End);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

impl Shared {
    fn set_order(&self, order: Order) {
        let mut current = self.order.lock();
        if *current != order {
            *current = order;
            self.changed.notify_one();
        }
    }

    /// Waits until the log is to be moved ([`Order::Move`]), or until it is time to check the files ([`Order::Wait`]). `None` at
    /// the end.
    fn wait(&self) -> Option<Order> {
        let mut order = self.order.lock();
        if *order == Order::Wait {
            self.changed.wait_for(&mut order, CHECK_FILES);
        }
        match *order {
            Order::End => None,
            Order::Move | Order::Wait => Some(std::mem::take(&mut *order)),
        }
    }
}
