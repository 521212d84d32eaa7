//! Writes: transactions on separate connections, and single statements on a few shared ones.

use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool::managed::{Object, Pool};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use gatewright_base::{Shares, Turn};
use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard, Semaphore, oneshot};

use super::connect::Connector;
use super::lanes::{Lane, Lanes};
use super::threads::Threads;
use super::together::{Done, Waiters, Waiting};
use super::transaction::{self, Phase};
use super::{DriverRow, connection_of, decode, pool};
use crate::resting::{Resting, written};
use crate::row::RowRef;
use crate::tx::{Inner, panic_message, run_action};
use crate::{Error, OpenError, Options, Share, Sql, Tx, Value};

/// Statements, or transactions of several, of one share that are in progress on each connection for them, or twice as many while
/// statements run again one by one. More would not make it faster.
const IN_FLIGHT: usize = 2;
/// How long a single statement waits for a lock while others wait behind it. Without contention, locks are held for the time of a
/// commit.
const LOCK_TIMEOUT: Duration = Duration::from_millis(25);
/// How long a statement may take in a transaction of several. A caller whose statements take longer does not get a connection alone for
/// several of them.
const TOGETHER_LIMIT: Duration = Duration::from_millis(10);
/// How often a transaction is run after a serialization failure or a deadlock.
const ATTEMPTS: u32 = 6;
/// The longest pause before the second attempt. It doubles with each further one.
const PAUSE: Duration = Duration::from_millis(20);

/// Transactions, each on a connection from a pool.
pub(super) struct Transactions {
    pool: Pool<Connector>,
    shares: Shares<Share>,
    resting: Arc<Mutex<Resting>>,
    /// How long a share's write waits for its turn.
    busy_timeout: Duration,
    threads: Threads,
}

impl Transactions {
    pub(super) fn new(
        connector: Connector,
        connections: usize,
        threads: Threads,
        options: &Options,
    ) -> Result<Self, OpenError> {
        Ok(Self {
            pool: pool(connector.for_transactions(), connections, options)?,
            // A share leaves one connection for other shares, and all shares together leave one for the program's own
            // transactions.
            shares: Shares::within(connections.saturating_sub(2), connections - 1),
            resting: Arc::default(),
            busy_timeout: options.busy_timeout,
            threads,
        })
    }

    pub(super) async fn write<T, E, F>(&self, share: Share, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (pool, phase) = (self.pool.clone(), Phase::default());
        let inside = phase.clone();
        let turn = self.turn(&self.shares, share).await?;
        let (resting, bytes) = (self.resting.clone(), Arc::new(AtomicU64::new(0)));
        let run = async move || {
            let _turn = turn;
            let mut attempt = 1;
            loop {
                match transaction::run(connection_of(&pool).await?, &work, &inside, &bytes).await {
                    Err(failed) if failed.again && attempt < ATTEMPTS => {
                        tokio::time::sleep(pause(attempt)).await;
                        attempt += 1;
                    }
                    result => {
                        resting.lock().took(share, Duration::ZERO, bytes.load(Ordering::Relaxed));
                        return result.map_err(|failed| failed.error);
                    }
                }
            }
        };
        self.threads.run(phase, run).await
    }

    /// Waits for a share's turn. The program's own writes do not wait.
    fn turn<'a>(&'a self, shares: &'a Shares<Share>, share: Share) -> BoxFuture<'a, Result<Option<Turn>, Error>> {
        let busy_timeout = self.busy_timeout;
        Box::pin(async move {
            if share == Share::default() {
                return Ok(None);
            }
            let turn = tokio::time::timeout(busy_timeout, self.rested(shares, share));
            turn.await.map(Some).map_err(|_| Error::Busy)
        })
    }

    /// A turn of a share once it has rested.
    async fn rested(&self, shares: &Shares<Share>, share: Share) -> Turn {
        self.resting.lock().came(share);
        loop {
            let turn = shares.take(share).await;
            let Some(until) = self.resting.lock().until(share) else { return turn };
            // Others may have the connection meanwhile.
            drop(turn);
            tokio::time::sleep_until(until.into()).await;
        }
    }

    /// Notes what a share has written with single statements.
    fn took(&self, share: Share, params: &[Value]) {
        self.resting.lock().took(share, Duration::ZERO, written(params));
    }

    /// A connection for a read of the program.
    pub(super) fn connection(&self) -> BoxFuture<'_, Result<Object<Connector>, Error>> {
        connection_of(&self.pool)
    }

    pub(super) fn connector(&self) -> &Connector {
        self.pool.manager()
    }

    pub(super) fn close(&self) {
        self.pool.manager().close();
        self.pool.close();
    }
}

/// Single writing statements, each with its own transaction.
///
/// They are pipelined over a few connections, separate from reads: statements that are sent after a statement wait for its commit.
/// A statement waits for a lock at most [`LOCK_TIMEOUT`]. If it does not get the lock in that time, it has changed nothing, and
/// runs again on a connection for transactions, where no other statement waits for it.
///
/// A share that has more to write than its turns runs the waiting statements in transactions of several: see [`together`](super::together).
/// If one of these fails, they run again one by one, so that a caller does not notice the others.
pub(super) struct Statements {
    lanes: Lanes,
    /// One for each connection. Single statements share it; a transaction has it alone.
    gates: Vec<RwLock<()>>,
    /// One for each connection that a transaction may have alone. The last one stays for single statements.
    alone: Semaphore,
    waiters: Waiters,
    /// A share has only a limited number of them in progress, so that few are ahead of another share's.
    shares: Shares<Share>,
    transactions: Arc<Transactions>,
}

impl Statements {
    pub(super) fn new(connector: &Connector, connections: usize, transactions: Arc<Transactions>) -> Self {
        let lanes = Lanes::new(&connector.clone().for_single_statements(LOCK_TIMEOUT), connections);
        let gates = (0..connections).map(|_| RwLock::default()).collect();
        let alone = Semaphore::new(connections.saturating_sub(1).max(1));
        let (waiters, shares) = (Waiters::default(), Shares::new(IN_FLIGHT * connections));
        Self { lanes, gates, alone, waiters, shares, transactions }
    }

    pub(super) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Waits for a share's turn to send a statement.
    fn turn(&self, share: Share) -> BoxFuture<'_, Result<Option<Turn>, Error>> {
        self.transactions.turn(&self.shares, share)
    }

    pub(super) fn execute<'a>(
        &'a self,
        share: Share,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let _turn = self.turn(share).await?;
            let (lane, gate) = self.lane().await;
            let executed = lane.execute(sql, params).await;
            self.transactions.took(share, params);
            drop(gate);
            match executed {
                Err(Error::Locked) => {
                    let (sql, params) = (sql.clone(), params.to_vec());
                    let again = async move |tx: &Tx| tx.execute(sql.clone(), params.clone()).await;
                    self.transactions.write(share, again).await
                }
                result => result,
            }
        })
    }

    pub(super) fn query<'a>(
        &'a self,
        share: Share,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<Vec<DriverRow>, Error>> {
        Box::pin(async move {
            let _turn = self.turn(share).await?;
            self.rows(share, sql, params).await
        })
    }

    /// Runs a statement that has its turn.
    fn rows<'a>(
        &'a self,
        share: Share,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<Vec<DriverRow>, Error>> {
        Box::pin(async move {
            let (lane, gate) = self.lane().await;
            let rows = lane.query(sql, params).await;
            self.transactions.took(share, params);
            drop(gate);
            match rows {
                Err(Error::Locked) => {
                    let (sql, params) = (sql.clone(), params.to_vec());
                    let again = async move |tx: &Tx| match &tx.inner {
                        Inner::Postgres(open) => open.raw(&sql, &params).await,
                        Inner::Sqlite(_) => Err(Error::Closed),
                    };
                    self.transactions.write(share, again).await
                }
                result => result,
            }
        })
    }

    /// A connection for one statement: the next one that no transaction has or wants.
    async fn lane(&self) -> (&Lane, RwLockReadGuard<'_, ()>) {
        let next = self.lanes.next_place();
        let free = self.places(next).find_map(|place| Some((place, self.gates[place].try_read().ok()?)));
        let (place, gate) = match free {
            Some(free) => free,
            None => (next, self.gates[next].read().await),
        };
        (self.lanes.at(place), gate)
    }

    /// All places, `first` first.
    fn places(&self, first: usize) -> impl Iterator<Item = usize> {
        let count = self.gates.len();
        (first..first + count).map(move |place| place % count)
    }

    /// Once it has its turn, it runs to its end even if the caller is dropped, so that a committed write never misses
    /// `after_commit`.
    pub(super) async fn fold<A, F, C>(
        self: &Arc<Self>,
        share: Share,
        (sql, params): (Sql, Vec<Value>),
        start: A,
        each: F,
        after_commit: C,
    ) -> Result<A, Error>
    where
        A: Send + 'static,
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error> + Send + 'static,
        C: FnOnce(&A) + Send + 'static,
    {
        let (sender, mut answer) = oneshot::channel();
        let span = tracing::Span::current();
        let done = move |rows: Result<Vec<DriverRow>, Error>| {
            let fold = || {
                let result = decode::fold(&rows?, start, each)?;
                run_action(|| after_commit(&result));
                Ok(result)
            };
            let folded = catch_unwind(AssertUnwindSafe(|| span.in_scope(fold)));
            let folded = folded.unwrap_or_else(|panic| Err(Error::Panicked(panic_message(&*panic).to_owned())));
            let _gone = sender.send(folded);
        };
        let begun = self.run(share, Waiting { sql, params, done: Box::new(done) });
        tokio::select! {
            biased;
            // In another one's turn.
            answer = &mut answer => return answer.unwrap_or(Err(Error::Closed)),
            begun = begun => begun?,
        }
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Waits for turns of the share until a statement has begun. The statement may begin, and end, in another one's turn before.
    fn run(self: &Arc<Self>, share: Share, waiting: Waiting) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if share == Share::default() {
                tokio::spawn(self.clone().run_all(share, vec![waiting], None));
                return Ok(());
            }
            let place = self.waiters.line_up(share, waiting);
            let turns = async {
                while place.is_waiting() {
                    let turn = self.transactions.rested(&self.shares, share).await;
                    let next = self.waiters.next(share);
                    if !next.is_empty() {
                        tokio::spawn(self.clone().run_all(share, next, Some(turn)));
                    }
                }
            };
            let waited = tokio::time::timeout(self.transactions.busy_timeout, turns).await;
            if waited.is_err() && place.leave() { Err(Error::Busy) } else { Ok(()) }
        })
    }

    /// Runs statements of a share: together, or one by one if one of them fails.
    async fn run_all(self: Arc<Self>, share: Share, waiting: Vec<Waiting>, _turn: Option<Turn>) {
        let (statements, done): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|waiting| ((waiting.sql, waiting.params), waiting.done)).unzip();
        if statements.len() > 1 {
            match self.together(&statements).await {
                Ok(rows) => {
                    for (_, params) in &statements {
                        self.transactions.took(share, params);
                    }
                    return done.into_iter().zip(rows).for_each(|(done, rows)| done(Ok(rows)));
                }
                // Whether they were committed is unknown.
                Err(Error::ConnectionLost(reason)) => {
                    return done.into_iter().for_each(|done| done(Err(Error::ConnectionLost(reason.clone()))));
                }
                Err(error) => tracing::debug!(%error, "statements are repeated one by one"),
            }
        }
        let one = async |((sql, params), done): ((Sql, Vec<Value>), Done)| {
            let rows = self.rows(share, &sql, &params).await;
            done(rows);
        };
        stream::iter(statements.into_iter().zip(done)).for_each_concurrent(IN_FLIGHT, one).await;
    }

    async fn together(&self, statements: &[(Sql, Vec<Value>)]) -> Result<Vec<Vec<DriverRow>>, Error> {
        let _allowed = self.alone.acquire().await.map_err(|_| Error::Closed)?;
        let next = self.lanes.next_place();
        let idle = self.places(next).find_map(|place| Some((place, self.gates[place].try_write().ok()?)));
        let (place, _gate) = match idle {
            Some(idle) => idle,
            None => (next, self.gates[next].write().await),
        };
        self.lanes.at(place).connection().await?.together(statements, TOGETHER_LIMIT).await
    }
}

/// A pause of random length, so that transactions which collided do not collide again.
fn pause(attempt: u32) -> Duration {
    // Each state is keyed at random. No secret depends on this.
    let random = RandomState::new().hash_one(attempt);
    PAUSE.saturating_mul(1 << attempt.saturating_sub(1)) / 1_000 * u32::try_from(random % 1_000).unwrap_or_default()
}
