//! Single reads of records over a few shared connections.
//!
//! A statement that others wait behind may take only [`LIMIT`] there. The server stops a longer one. It then runs again on a connection
//! of its own, in the turns of its caller, with the ordinary limit. A caller whose statement was stopped, or whose answer was large,
//! reads apart in this way for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio_postgres::RowStream;

use super::DriverRow;
use super::callers::{Caller, Callers, Turn};
use super::connection::TIMEOUT;
use super::lanes::{Lane, Lanes};
use super::lists::Lists;
use super::transaction::Open;
use crate::{Error, Share, Sql, Value};

/// How long a statement may take on a shared connection.
pub(super) const LIMIT: Duration = Duration::from_millis(25);
/// A read on a connection of its own that takes this long counts as slow, on a busy machine too.
const SLOW: Duration = Duration::from_millis(100);
/// Answers of at least this many bytes count.
const LARGE: usize = 64 << 10;
/// How long a byte of an answer delays the answers behind it.
const PER_BYTE: Duration = Duration::from_nanos(10);

pub(super) struct Reads {
    lanes: Lanes,
    /// Statements in progress on each connection.
    loads: Vec<AtomicUsize>,
    next: AtomicUsize,
    callers: Callers,
    lists: Arc<Lists>,
    /// Whether the server stops a statement after [`LIMIT`]. Behind a pooler, it does not.
    is_limited: bool,
}

/// Reads of one caller.
pub(super) struct Reading {
    reads: Arc<Reads>,
    share: Share,
    caller: Option<Arc<Caller>>,
    /// Whether a statement was sent.
    begun: AtomicBool,
    /// Whether the reads have to run again, apart.
    stopped: AtomicBool,
}

/// The place of a statement. On a shared connection it lasts until the statement has ended there, also if its future was dropped:
/// callers who leave get no more of the connections than those who stay.
pub(super) struct Place<'a> {
    reading: &'a Reading,
    on: On,
    ended: bool,
}

enum On {
    /// A shared connection.
    Shared(usize, Option<Turn>),
    /// A connection of its own since then.
    Own(Instant),
}

impl Reads {
    pub(super) fn new(lanes: Lanes, lists: Arc<Lists>, is_limited: bool) -> Self {
        let loads: Vec<_> = (0..lanes.len()).map(|_| AtomicUsize::new(0)).collect();
        let callers = Callers::new(loads.len());
        Self { lanes, loads, next: AtomicUsize::new(0), callers, lists, is_limited }
    }

    /// Begins reads of a share: over the shared connections, or apart.
    pub(super) async fn open(self: &Arc<Self>, share: Share) -> Result<Open, Error> {
        let caller = self.callers.of(share);
        let is_apart = caller.as_ref().is_some_and(|caller| self.callers.is_apart(caller));
        let (begun, stopped) = (AtomicBool::new(false), AtomicBool::new(is_apart));
        let reading = Reading { reads: self.clone(), share, caller, begun, stopped };
        if is_apart { reading.apart().await } else { Ok(Open::sharing(reading)) }
    }

    fn leave(&self, caller: Option<&Caller>, at: usize, turn: Option<Turn>) {
        self.loads[at].fetch_sub(1, Ordering::Relaxed);
        if let (Some(caller), Some(turn)) = (caller, turn) {
            caller.leave(at, turn);
        }
    }

    fn charge(&self, caller: Option<&Caller>, cost: Duration) {
        if let Some(caller) = caller {
            self.callers.set_apart(caller, cost);
        }
    }

    fn forgive(&self, caller: Option<&Caller>) {
        if let Some(caller) = caller {
            self.callers.forgive(caller);
        }
    }
}

impl Reading {
    /// Continues on a connection of its own.
    pub(super) fn apart(self) -> BoxFuture<'static, Result<Open, Error>> {
        Box::pin(async move {
            let (connection, turn) = self.reads.lists.single(self.share).await?;
            Ok(Open::apart(connection, turn, self))
        })
    }

    pub(super) fn was_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The settings of a transaction on a connection of its own.
    pub(super) fn settings(&self) -> &str {
        self.reads.lists.settings()
    }

    pub(super) async fn query(&self, sql: &Sql, params: &[Value]) -> Result<Vec<DriverRow>, Error> {
        let (place, lane) = self.shared().await?;
        let rows = lane.query(sql, params).await;
        place.end(size(rows.as_deref().unwrap_or_default()), rows.as_ref().err());
        rows
    }

    pub(super) async fn stream(&self, sql: &Sql, params: &[Value]) -> Result<(RowStream, Place<'_>), Error> {
        let (place, lane) = self.shared().await?;
        match lane.stream(sql, params).await {
            Ok(rows) => Ok((rows, place)),
            Err(error) => {
                place.end(0, Some(&error));
                Err(error)
            }
        }
    }

    /// A statement on a connection of its own begins.
    pub(super) fn own(&self) -> Place<'_> {
        Place { reading: self, on: On::Own(Instant::now()), ended: false }
    }

    /// Waits for a place on a shared connection. Fails if the caller has to read apart by then and has not begun.
    async fn shared(&self) -> Result<(Place<'_>, &Lane), Error> {
        let reads = &*self.reads;
        let mut turn = None;
        if let Some(caller) = &self.caller {
            let taken = reads.callers.turn(caller).await;
            turn = Some(taken);
            if reads.callers.is_apart(caller) && !self.begun.load(Ordering::Relaxed) {
                caller.pass(taken);
                self.stopped.store(true, Ordering::Relaxed);
                return Err(Error::Deadline);
            }
        }
        self.begun.store(true, Ordering::Relaxed);
        let first = reads.next.fetch_add(1, Ordering::Relaxed);
        let at = reads.callers.choose(self.caller.as_deref(), &reads.loads, first);
        Ok((Place { reading: self, on: On::Shared(at, turn), ended: false }, reads.lanes.at(at)))
    }
}

impl Place<'_> {
    /// The statement has returned that many bytes, or failed.
    pub(super) fn end(mut self, bytes: usize, error: Option<&Error>) {
        let Reading { reads, caller, begun, stopped, .. } = self.reading;
        let (is_stopped, delay) = (matches!(error, Some(Error::Deadline)), delay_of(bytes));
        let took = match self.on {
            On::Shared(..) if is_stopped => {
                stopped.fetch_or(reads.is_limited, Ordering::Relaxed);
                LIMIT
            }
            On::Shared(..) => Duration::ZERO,
            On::Own(since) => since.elapsed(),
        };
        let was_stopped = matches!(self.on, On::Own(_)) && begun.load(Ordering::Relaxed);
        if was_stopped && took < LIMIT && delay.is_zero() {
            reads.forgive(caller.as_deref());
        } else if is_stopped || took >= SLOW || !delay.is_zero() {
            reads.charge(caller.as_deref(), took.max(delay));
        }
        // After another error, the server may still be sending rows.
        self.ended = error.is_none() || is_stopped;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let On::Shared(at, turn) = self.on else { return };
        let Reading { reads, caller, .. } = self.reading;
        let lane = reads.lanes.at(at);
        let Some(connection) = lane.alive().filter(|_| !self.ended) else {
            return reads.leave(caller.as_deref(), at, turn);
        };
        let (reads, caller, since) = (reads.clone(), caller.clone(), Instant::now());
        lane.connector().runtime().spawn(async move {
            // The server answers this after everything that was sent before.
            let answered = tokio::time::timeout(TIMEOUT, connection.batch("")).await;
            if answered.is_err() || since.elapsed() >= LIMIT {
                reads.charge(caller.as_deref(), LIMIT);
            }
            reads.leave(caller.as_deref(), at, turn);
        });
    }
}

/// How large an answer is.
pub(super) fn size(rows: &[DriverRow]) -> usize {
    rows.iter().map(DriverRow::raw_size_bytes).sum()
}

/// How long an answer of that size delays others, if it is large.
fn delay_of(bytes: usize) -> Duration {
    if bytes < LARGE { Duration::ZERO } else { PER_BYTE.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX)) }
}
