//! The cost limit for the statements of one caller, on the thread that runs them.
//!
//! SQLite checks between two steps whether to continue ([`is_over`]). A search in a long text is one step, so it does
//! its own check ([`search`]).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::ffi;

/// Signals to a running statement that its caller no longer waits.
#[derive(Debug, Clone, Default)]
pub(super) struct Gone(Arc<AtomicBool>);

impl Gone {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets [`Gone`] when it is dropped: part of the future that waits for the answer.
#[derive(Debug)]
pub(super) struct Waiting(Gone);

impl Waiting {
    pub(super) fn new() -> (Self, Gone) {
        let gone = Gone::default();
        (Self(gone.clone()), gone)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// The cost limit of statements together.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    pub(super) time: Duration,
    /// Bytes of text that may be searched.
    pub(super) search_bytes: u64,
    pub(super) gone: Gone,
}

impl Limit {
    pub(super) fn of_time(time: Duration) -> Self {
        Self { time, search_bytes: u64::MAX, gone: Gone::default() }
    }
}

struct Running {
    until: Option<Instant>,
    search_bytes: u64,
    gone: Option<Gone>,
    /// How many times SQLite may check before the answer stops; without it, time decides.
    looks: Option<u32>,
}

/// SQLite counts a statement's steps over all its runs, so that the first time it asks may come at once.
const LOOKS: u32 = 2;

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Runs `work` with `limit` as the common cost limit of its statements.
pub(super) fn limited<T>(limit: Limit, work: impl FnOnce() -> T) -> T {
    let until = Instant::now().checked_add(limit.time);
    RUNNING.set(Some(Running { until, search_bytes: limit.search_bytes, gone: Some(limit.gone), looks: None }));
    let result = work();
    RUNNING.set(None);
    result
}

/// Runs `work`, a part of what is [`limited`], whose statements are also stopped after `time`.
pub(super) fn sooner<T>(time: Duration, work: impl FnOnce() -> T) -> T {
    let until = Instant::now().checked_add(time);
    let outer = RUNNING.with_borrow_mut(|running| {
        let running = running.as_mut()?;
        let sooner = [running.until, until].into_iter().flatten().min();
        Some(std::mem::replace(&mut running.until, sooner))
    });
    let result = work();
    RUNNING.with_borrow_mut(|running| {
        if let (Some(running), Some(outer)) = (running, outer) {
            running.until = outer;
        }
    });
    result
}

/// Runs `work`. Its statements are stopped after a few thousand steps.
pub(super) fn briefly<T>(work: impl FnOnce() -> T) -> T {
    RUNNING.set(Some(Running { until: None, search_bytes: u64::MAX, gone: None, looks: Some(LOOKS) }));
    let result = work();
    RUNNING.set(None);
    result
}

/// Whether to stop the running statement.
pub(super) fn is_over() -> bool {
    RUNNING.with_borrow_mut(|running| {
        let Some(running) = running else { return false };
        if let Some(looks) = &mut running.looks {
            *looks = looks.saturating_sub(1);
            return *looks == 0;
        }
        running.gone.as_ref().is_some_and(Gone::is_set) || running.until.is_some_and(|until| Instant::now() >= until)
    })
}

/// Counts a text that is searched. The error stops the statement.
pub(super) fn search(bytes: usize) -> rusqlite::Result<()> {
    let is_spent = RUNNING.with_borrow_mut(|running| {
        let Some(running) = running else { return false };
        running.search_bytes = running.search_bytes.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
        running.search_bytes == 0
    });
    if is_spent || is_over() {
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None));
    }
    Ok(())
}

/// Whether the running statements have searched all that they may.
pub(super) fn is_search_spent() -> bool {
    RUNNING.with_borrow(|running| running.as_ref().is_some_and(|running| running.search_bytes == 0))
}
