//! The threads that read.
//!
//! Each takes what is waiting, its share of it at most, and only then begins a read transaction: so every read sees a
//! snapshot that is younger than itself, and a burst of reads pays for one transaction.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::runtime::Handle;

use super::connection::OnThread;
use super::task;
use crate::tx::run_action;

/// The most reads that share a snapshot.
const BATCH: usize = 32;

pub(super) type Read = Box<dyn FnOnce(&OnThread) + Send>;

pub(super) struct Readers(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    threads: usize,
}

#[derive(Default)]
struct State {
    reads: VecDeque<Read>,
    idle: usize,
    closed: bool,
}

impl Readers {
    /// Gives each connection to a thread of its own; they end when the handle is dropped.
    pub(super) fn start(connections: Vec<Connection>, runtime: &Handle) -> Self {
        let queue =
            Arc::new(Queue { state: Mutex::default(), arrived: Condvar::new(), threads: connections.len().max(1) });
        for (number, connection) in connections.into_iter().enumerate() {
            let (queue, runtime) = (queue.clone(), runtime.clone());
            std::thread::Builder::new()
                .name(format!("sqlite-reader-{number}"))
                .spawn(move || {
                    let _timers = runtime.enter();
                    let on_thread = OnThread::settle(connection);
                    task::mark(on_thread, task::Role::Reader);
                    while let Some(batch) = queue.take() {
                        serve(on_thread, batch);
                    }
                    on_thread.close();
                })
                .expect("the system can start a thread");
        }
        Self(queue)
    }

    pub(super) fn submit(&self, read: Read) {
        let mut state = self.0.state.lock();
        state.reads.push_back(read);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.0.arrived.notify_one();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.arrived.notify_all();
    }
}

impl Queue {
    /// Waits for reads and takes a fair share of those that wait. `None` when closed.
    fn take(&self) -> Option<Vec<Read>> {
        let mut state = self.state.lock();
        loop {
            if !state.reads.is_empty() {
                let share = state.reads.len().div_ceil(self.threads).min(BATCH);
                return Some(state.reads.drain(..share).collect());
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            self.arrived.wait(&mut state);
            state.idle -= 1;
        }
    }
}

fn serve(on_thread: OnThread, batch: Vec<Read>) {
    // Without the shared snapshot each read has one of its own: slower, and just as right.
    let begun = on_thread.control("BEGIN").inspect_err(|error| tracing::warn!(error = %error, "no read transaction"));
    for read in batch {
        run_action(|| read(&on_thread));
    }
    if begun.is_ok()
        && let Err(error) = on_thread.control("COMMIT")
    {
        tracing::warn!(error = %error, "a read transaction did not end");
    }
}
