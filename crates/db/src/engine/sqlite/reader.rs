//! The threads that read.
//!
//! Each thread opens its connection before its first read: a start is faster, and threads that nothing needs take no memory.
//!
//! Each thread takes queued reads, at most its share, and only then begins a read transaction. So every read sees a
//! snapshot from after its request, and a burst of reads shares one transaction.
//!
//! Reads belong to [shares](Share). Shares take turns, and the number of threads for one share is limited. A slow read
//! does not delay reads that were taken with it: those go back to the queue.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;

use super::connection::{OnThread, Opener};
use super::task;
use crate::Share;
use crate::tx::run_action;

/// The most reads that share a snapshot.
const BATCH: usize = 32;
/// How long the reads of one snapshot may take together before the remaining ones go back to the queue.
const BATCH_TIME: Duration = Duration::from_millis(2);

pub(super) type Read = Box<dyn FnOnce(&OnThread) + Send>;

pub(super) struct Readers {
    queue: Arc<Queue>,
    /// Disconnected when the last thread has closed its connection.
    ended: Mutex<mpsc::Receiver<()>>,
}

struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    /// The most threads that serve one share.
    most: usize,
}

#[derive(Default)]
struct State {
    shares: HashMap<Share, Waiting>,
    /// The shares with reads that wait, in the order of their turns.
    turns: VecDeque<Share>,
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Waiting {
    reads: VecDeque<Read>,
    /// How many threads serve the share now.
    running: usize,
}

impl Readers {
    /// Starts `count` threads, named `name`, which `open` their connections. At most `most` of them serve one share.
    pub(super) fn start(name: &str, open: &Opener, count: usize, most: usize, runtime: &Handle) -> Self {
        let queue = Arc::new(Queue { state: Mutex::default(), arrived: Condvar::new(), most: most.max(1) });
        let (running, ended) = mpsc::channel();
        for number in 0..count {
            let (queue, open, runtime, running) = (queue.clone(), open.clone(), runtime.clone(), running.clone());
            std::thread::Builder::new()
                .name(format!("sqlite-{name}-{number}"))
                .spawn(move || {
                    let _timers = runtime.enter();
                    let mut opened = None;
                    while let Some((share, batch)) = queue.take() {
                        opened = opened.or_else(|| settle(&open));
                        // Without a connection, the reads are dropped: their callers are told so.
                        let rest = opened.map(|on_thread| serve(on_thread, batch)).unwrap_or_default();
                        queue.done(share, rest);
                    }
                    if let Some(on_thread) = opened {
                        on_thread.close();
                    }
                    drop(running);
                })
                .expect("the system can start a thread");
        }
        Self { queue, ended: Mutex::new(ended) }
    }

    /// Runs `read` on one of the threads, or drops it when they are closed.
    pub(super) fn submit(&self, share: Share, read: Read) {
        let mut state = self.queue.state.lock();
        if state.closed {
            return;
        }
        let waiting = state.shares.entry(share).or_default();
        waiting.reads.push_back(read);
        let (is_first, running) = (waiting.reads.len() == 1, waiting.running);
        if is_first {
            state.turns.push_back(share);
        }
        let wake = running < self.queue.most && state.idle > 0;
        drop(state);
        if wake {
            self.queue.arrived.notify_one();
        }
    }

    /// Accepts no more reads, and waits up to `limit` for queued reads and for the connections to close.
    pub(super) fn close(&self, limit: Duration) {
        self.queue.state.lock().closed = true;
        self.queue.arrived.notify_all();
        // Nothing is ever sent: the wait ends when the last thread ends.
        let _ended_or_late = self.ended.lock().recv_timeout(limit);
    }
}

impl Queue {
    /// Waits for reads and takes a fair part of the waiting reads of the share whose turn it is. `None` when closed.
    fn take(&self) -> Option<(Share, VecDeque<Read>)> {
        let mut state = self.state.lock();
        loop {
            if let Some(taken) = state.next(self.most) {
                if state.idle > 0 && state.turn(self.most).is_some() {
                    self.arrived.notify_one();
                }
                return Some(taken);
            }
            if state.closed && state.turns.is_empty() {
                return None;
            }
            state.idle += 1;
            self.arrived.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// A thread has served a share; `rest` are the reads that it did not run.
    fn done(&self, share: Share, mut rest: VecDeque<Read>) {
        let mut state = self.state.lock();
        let Some(waiting) = state.shares.get_mut(&share) else { return };
        waiting.running -= 1;
        let was_empty = waiting.reads.is_empty();
        rest.append(&mut waiting.reads);
        waiting.reads = rest;
        let is_empty = waiting.reads.is_empty();
        if is_empty && waiting.running == 0 {
            state.shares.remove(&share);
        }
        if was_empty && !is_empty {
            state.turns.push_back(share);
        }
        // This thread takes the next turn by itself.
        let wake = state.closed;
        drop(state);
        if wake {
            self.arrived.notify_all();
        }
    }
}

impl State {
    /// The place of the next share that another thread may serve.
    fn turn(&self, most: usize) -> Option<usize> {
        let may = |share: &Share| self.shares.get(share).is_some_and(|waiting| waiting.running < most);
        self.turns.iter().position(may)
    }

    fn next(&mut self, most: usize) -> Option<(Share, VecDeque<Read>)> {
        let place = self.turn(most)?;
        let share = self.turns.remove(place)?;
        let queued = self.shares.get_mut(&share)?;
        let count = queued.reads.len().div_ceil(most).min(BATCH);
        let batch: VecDeque<Read> = queued.reads.drain(..count).collect();
        queued.running += 1;
        if !queued.reads.is_empty() {
            self.turns.push_back(share);
        }
        Some((share, batch))
    }
}

/// Opens the thread's connection.
fn settle(open: &Opener) -> Option<OnThread> {
    let connection = open().inspect_err(|error| tracing::error!(%error, "a reader cannot open the database")).ok()?;
    let on_thread = OnThread::settle(connection);
    task::mark(on_thread, task::Role::Reader);
    Some(on_thread)
}

/// Runs the reads in one snapshot, and returns those for which there was no time.
fn serve(on_thread: OnThread, mut batch: VecDeque<Read>) -> VecDeque<Read> {
    // Without the shared snapshot, each read has its own: slower, but equally correct.
    let begun = on_thread.control("BEGIN").inspect_err(|error| tracing::warn!(error = %error, "no read transaction"));
    let start = Instant::now();
    while let Some(read) = batch.pop_front() {
        run_action(|| read(&on_thread));
        if !batch.is_empty() && start.elapsed() > BATCH_TIME {
            break;
        }
    }
    if begun.is_ok()
        && let Err(error) = on_thread.control("COMMIT")
    {
        tracing::warn!(error = %error, "a read transaction did not end");
    }
    batch
}
