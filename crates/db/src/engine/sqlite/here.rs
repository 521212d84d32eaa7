//! Short reads on the thread that asks for them.
//!
//! A hop to a reader's thread and back takes longer than to read a row by its key. Such a read is tried at once, with a
//! connection that no other thread uses meanwhile. It goes to a reader's thread after all when no connection is free,
//! when it would wait for a lock, or when it takes more than a few thousand of SQLite's steps, so that no caller's read
//! holds a worker of the runtime.
//!
//! To begin and to end a snapshot takes system calls and a lock that all connections share, longer than the read itself. So
//! reads that follow closely on a connection share one ([`Snapshot`]), until anything is committed.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;

use super::connection::OnThread;
use super::{limit, task};
use crate::Error;

/// How long a snapshot may serve reads. A commit of this process ends it at once; only what another process commits, such as a
/// command, is seen this much later.
const KEPT: Duration = Duration::from_micros(500);

/// Commits of this process, to whatever database.
static COMMITS: AtomicU64 = AtomicU64::new(0);

/// To be called after each commit, and before anybody hears of it.
pub(super) fn note_commit() {
    COMMITS.fetch_add(1, Ordering::Release);
}

/// Connections for reads on the calling thread.
pub(super) struct Here {
    places: Box<[Mutex<Place>]>,
}

/// A connection, and the snapshot that it keeps.
struct Place {
    connection: Option<Connection>,
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
    /// Where this thread begins to look for a connection: mostly the same one, with its pages and statements at hand.
    static FIRST: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Here {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        let place = |connection| Mutex::new(Place { connection: Some(connection), snapshot: None, last: None });
        Self { places: connections.into_iter().map(place).collect() }
    }

    /// Runs `read`, or returns `None` where a reader's thread has to: nothing has been read then.
    pub(super) fn try_read<T>(&self, read: impl FnOnce(&OnThread) -> Result<T, Error>) -> Option<Result<T, Error>> {
        if OnThread::is_settled() {
            return None;
        }
        let count = self.places.len();
        let first = first();
        let mut place = (0..count).find_map(|offset| self.places.get((first + offset) % count)?.try_lock())?;
        place.refresh();
        let connection = &mut place.connection;
        let result = limit::briefly(|| OnThread::lend(connection, |here| task::contained(|| read(&here))))?;
        let begun_anew = matches!(result, Err(Error::Deadline | Error::Busy));
        (!begun_anew).then_some(result)
    }

    /// Ends the snapshots that are out of date on connections that nobody reads from: they would keep the log from starting anew.
    pub(super) fn release(&self) {
        for place in &self.places {
            if let Some(mut place) = place.try_lock()
                && place.snapshot.is_some_and(|snapshot| snapshot.commits != COMMITS.load(Ordering::Acquire))
            {
                place.end();
            }
        }
    }

    /// Closes the connections, once those that are in use are free.
    pub(super) fn close(&self) {
        for place in &self.places {
            let mut place = place.lock();
            (place.snapshot, place.connection) = (None, None);
        }
    }
}

impl Place {
    /// Has the next read see all that was committed before. Keeps the snapshot for further ones if reads come in quick succession.
    fn refresh(&mut self) {
        let now = Instant::now();
        let is_busy = self.last.replace(now).is_some_and(|last| now.duration_since(last) < KEPT);
        // Before the snapshot begins: it may show more than these, never less.
        let commits = COMMITS.load(Ordering::Acquire);
        let is_current = |kept: Snapshot| kept.commits == commits && now.duration_since(kept.began) < KEPT;
        if self.snapshot.is_some_and(is_current) {
            return;
        }
        self.end();
        if is_busy && self.control("BEGIN") {
            self.snapshot = Some(Snapshot { began: now, commits });
        }
    }

    fn end(&mut self) {
        if self.snapshot.take().is_some() && !self.control("COMMIT") {
            // It would show the past for ever.
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
