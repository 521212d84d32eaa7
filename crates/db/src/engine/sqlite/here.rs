//! Short reads on the caller's thread.
//!
//! A switch to a reader's thread and back takes longer than reading a row by its key. Such a read is tried at once,
//! with a connection that no other thread uses at that time. It goes to a reader's thread if no connection is free, if
//! it would wait for a lock, or if it takes more than a few thousand of SQLite's steps, so that no caller's read blocks
//! a worker of the runtime.
//!
//! Beginning and ending a snapshot takes system calls and a lock that all connections share, which takes longer than the read
//! itself. So reads that follow closely on a connection share one ([`Snapshot`]), until the next commit. A snapshot prevents the
//! write-ahead log from restarting and other processes from emptying it, so a thread ends snapshots that are no longer used.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::connection::{OnThread, Opener};
use super::{limit, task};
use crate::Error;

/// How long a snapshot may serve reads. A commit of this process ends it at once; only commits of other processes, such as a
/// command, are seen this much later.
const KEPT: Duration = Duration::from_micros(500);
/// How often old snapshots are searched for, while there are any.
const SWEEP: Duration = Duration::from_millis(5);

/// The number of commits of this process, to any database.
static COMMITS: AtomicU64 = AtomicU64::new(0);

/// Must be called after each commit, before its result is returned.
pub(super) fn note_commit() {
    COMMITS.fetch_add(1, Ordering::Release);
}

/// Connections for reads on the calling thread.
pub(super) struct Here(Arc<Inner>);

struct Inner {
    places: Box<[Mutex<Place>]>,
    /// Opens a place's connection, at its first read.
    open: Opener,
    /// No snapshots are kept at present.
    is_paused: AtomicBool,
    /// The sweeping thread has something to look for.
    is_awaited: AtomicBool,
    /// Whether the sweeping thread is to end.
    is_closed: Mutex<bool>,
    changed: Condvar,
}

/// A connection, and the snapshot that it keeps.
#[derive(Default)]
struct Place {
    connection: Option<Connection>,
    /// It opens no more connections.
    is_closed: bool,
    snapshot: Option<Snapshot>,
    /// When it was last read from.
    last: Option<Instant>,
}

/// A read transaction that is open between reads.
#[derive(Clone, Copy)]
struct Snapshot {
    began: Instant,
    /// The number of commits before it began.
    commits: u64,
}

thread_local! {
    /// The connection that this thread tries first: usually the same one, whose pages and statements are cached.
    static FIRST: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Here {
    /// Has room for `count` connections.
    pub(super) fn new(count: usize, open: Opener) -> Self {
        let inner = Arc::new(Inner {
            places: (0..count).map(|_| Mutex::default()).collect(),
            open,
            is_paused: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
            is_closed: Mutex::new(false),
            changed: Condvar::new(),
        });
        let sweeping = inner.clone();
        std::thread::Builder::new()
            .name("sqlite-snapshots".to_owned())
            .spawn(move || sweeping.sweep())
            .expect("the system can start a thread");
        Self(inner)
    }

    /// Runs `read`, or returns `None` if a reader's thread has to run it: nothing has been read then.
    pub(super) fn try_read<T>(&self, read: impl FnOnce(&OnThread) -> Result<T, Error>) -> Option<Result<T, Error>> {
        if OnThread::is_settled() {
            return None;
        }
        let places = &self.0.places;
        let (count, first) = (places.len(), first());
        let mut place = (0..count).find_map(|offset| places.get((first + offset) % count)?.try_lock())?;
        place.settle(&self.0.open);
        if place.refresh(&self.0.is_paused) {
            self.0.await_sweep();
        }
        let connection = &mut place.connection;
        let result = limit::briefly(|| OnThread::lend(connection, |here| task::contained(|| read(&here))))?;
        let begun_anew = matches!(result, Err(Error::Deadline | Error::Busy));
        (!begun_anew).then_some(result)
    }

    /// Ends all snapshots and keeps none until [`resume`](Self::resume), so that the log can restart. Waits for running reads,
    /// which are short.
    pub(super) fn pause(&self) {
        self.0.is_paused.store(true, Ordering::Release);
        for place in &self.0.places {
            place.lock().end();
        }
    }

    pub(super) fn resume(&self) {
        self.0.is_paused.store(false, Ordering::Release);
    }

    /// Closes the connections, after those in use are free.
    pub(super) fn close(&self) {
        self.0.end_sweeping();
        for place in &self.0.places {
            let mut place = place.lock();
            *place = Place { is_closed: true, ..Place::default() };
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.end_sweeping();
    }
}

impl Inner {
    /// Has the sweeping thread look for snapshots.
    fn await_sweep(&self) {
        if !self.is_awaited.swap(true, Ordering::AcqRel) {
            // With the lock, so that the thread either sees it or waits already.
            drop(self.is_closed.lock());
            self.changed.notify_one();
        }
    }

    fn end_sweeping(&self) {
        *self.is_closed.lock() = true;
        self.changed.notify_one();
    }

    fn sweep(&self) {
        let mut is_closed = self.is_closed.lock();
        while !*is_closed {
            if self.is_awaited.load(Ordering::Acquire) {
                self.changed.wait_for(&mut is_closed, SWEEP);
                self.is_awaited.store(false, Ordering::Release);
                let kept = self.places.iter().filter(|place| Self::end_if_old(place)).count();
                if kept > 0 {
                    self.is_awaited.store(true, Ordering::Release);
                }
            } else {
                self.changed.wait(&mut is_closed);
            }
        }
    }

    /// Ends a snapshot that is old. Returns whether there is, or may be, still one.
    fn end_if_old(place: &Mutex<Place>) -> bool {
        let Some(mut place) = place.try_lock() else { return true };
        if place.snapshot.is_some_and(|snapshot| snapshot.began.elapsed() >= KEPT) {
            place.end();
        }
        place.snapshot.is_some()
    }
}

impl Place {
    /// Opens its connection if it has none. If it cannot, a reader's thread tries, and reports what is wrong.
    fn settle(&mut self, open: &Opener) {
        if self.connection.is_none() && !self.is_closed {
            self.connection = open().ok();
        }
    }

    /// Ensures that the next read sees every earlier commit. Keeps a snapshot for further reads if they come in quick succession.
    /// Returns whether a new one is kept.
    fn refresh(&mut self, is_paused: &AtomicBool) -> bool {
        let now = Instant::now();
        let is_busy = self.last.replace(now).is_some_and(|last| now.duration_since(last) < KEPT);
        // Before the snapshot begins: it may show more than these, never less.
        let commits = COMMITS.load(Ordering::Acquire);
        let is_current = |kept: Snapshot| kept.commits == commits && now.duration_since(kept.began) < KEPT;
        if self.snapshot.is_some_and(is_current) {
            return false;
        }
        self.end();
        if !is_busy || is_paused.load(Ordering::Acquire) || !self.control("BEGIN") {
            return false;
        }
        self.snapshot = Some(Snapshot { began: now, commits });
        true
    }

    fn end(&mut self) {
        if self.snapshot.take().is_some() && !self.control("COMMIT") {
            // Otherwise it would show an old state forever.
            tracing::warn!("a snapshot could not be ended; its connection is closed");
            self.connection = None;
        }
    }

    fn control(&self, sql: &'static str) -> bool {
        let run = |connection: &Connection| connection.prepare_cached(sql)?.execute([]);
        self.connection.as_ref().is_some_and(|connection| run(connection).is_ok())
    }
}

fn first() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    FIRST.get().unwrap_or_else(|| {
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        FIRST.set(Some(first));
        first
    })
}
