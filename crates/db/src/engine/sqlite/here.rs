//! Short reads on the thread that asks for them.
//!
//! A hop to a reader's thread and back takes longer than to read a row by its key. Such a read is tried at once, with a
//! connection that no other thread uses meanwhile. It goes to a reader's thread after all when no connection is free,
//! when it would wait for a lock, or when it takes more than a few thousand of SQLite's steps, so that no caller's read
//! holds a worker of the runtime.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rusqlite::Connection;

use super::connection::OnThread;
use super::{limit, task};
use crate::Error;

/// Connections for reads on the calling thread.
pub(super) struct Here {
    connections: Box<[Mutex<Option<Connection>>]>,
}

thread_local! {
    /// Where this thread begins to look for a connection: mostly the same one, with its pages and statements at hand.
    static FIRST: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Here {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        Self { connections: connections.into_iter().map(|connection| Mutex::new(Some(connection))).collect() }
    }

    /// Runs `read`, or returns `None` where a reader's thread has to: nothing has been read then.
    pub(super) fn try_read<T>(&self, read: impl FnOnce(&OnThread) -> Result<T, Error>) -> Option<Result<T, Error>> {
        if OnThread::is_settled() {
            return None;
        }
        let count = self.connections.len();
        let first = first();
        let mut place = (0..count).find_map(|offset| self.connections.get((first + offset) % count)?.try_lock())?;
        let result = limit::briefly(|| OnThread::lend(&mut place, |here| task::contained(|| read(&here))))?;
        let begun_anew = matches!(result, Err(Error::Deadline | Error::Busy));
        (!begun_anew).then_some(result)
    }

    /// Closes the connections, once those that are in use are free.
    pub(super) fn close(&self) {
        for connection in &self.connections {
            connection.lock().take();
        }
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
