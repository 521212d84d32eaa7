//! Postgres: single statements over a few shared, pipelined connections ([`lanes`]), transactions and lists on
//! connections of their own from pools ([`transaction`]), notifications on one more each ([`listen`]). [`connect`]
//! opens connections and selects their TLS; [`encode`], [`decode`] and [`numeric`] implement the binary format.
//!
//! What callers wait for is in boxes that functions without type parameters make. The future of an `async fn` is compiled
//! anew wherever generic code polls it, here for each transaction of a program: it would be megabytes.

mod connect;
mod connection;
mod decode;
mod encode;
mod error;
mod lanes;
mod listen;
mod numeric;
mod shares;
mod totals;
mod transaction;
mod types;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError, Timeouts};
use futures_util::future::{BoxFuture, LocalBoxFuture};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::LocalPoolHandle;
use tracing::Instrument;

pub(crate) use decode::{columns, value};
pub use listen::Listener;
pub(crate) use tokio_postgres::Row as DriverRow;
pub(crate) use transaction::Open;

use crate::row::RowRef;
use crate::tx::{Inner, panic_message, run_action};
use crate::{Error, Lane, OpenError, Options, Row, Share, Sql, Tx, Value};
use connect::Connector;
use lanes::{Lane as Connections, Lanes};
use shares::{ConnectionShares, ConnectionTurn};
use transaction::Phase;
use types::Types;

/// How often a transaction is run after a serialization failure or a deadlock.
const ATTEMPTS: u32 = 6;
/// The longest pause before the second attempt. It doubles with each further one.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Postgres {
    records: Lanes,
    identity: Lanes,
    lists: Pool<Connector>,
    list_shares: ConnectionShares,
    transactions: Pool<Connector>,
    write_shares: ConnectionShares,
    /// How long a share's write waits for its turn.
    busy_timeout: Duration,
    /// Behind a pooler.
    types: Option<Arc<Types>>,
    /// Closures may be `!Send`: each runs to its end on one of these threads.
    threads: LocalPoolHandle,
}

/// Checks the form of a URL.
pub(crate) fn check_url(url: &str) -> Result<(), OpenError> {
    connect::parse(url).map(|_| ())
}

impl Postgres {
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self, OpenError> {
        let direct = options.direct_url.as_ref().map(|url| Connector::new(url.expose(), options, None)).transpose()?;
        let types = direct.map(|direct| Arc::new(Types::new(direct)));
        let connector = Connector::new(url, options, types.clone())?;
        let lists_options = Options { statement_timeout: options.list_timeout, ..options.clone() };
        let lists_connector = Connector::new(url, &lists_options, types.clone())?;
        // At least one of each kind, and one for transactions that no share takes.
        let connections = options.max_connections.get().max(5);
        let (identity, records) = ((connections / 8).clamp(1, 4), (connections / 4).clamp(1, 8));
        let lists = (connections * 5 / 16).clamp(1, 8);
        let records = Lanes::new(&connector, records);
        records.try_one().await?;
        let identity = Lanes::new(&connector, identity);
        match &types {
            Some(types) => types.check_same_database(&records.pick()).await?,
            None => lanes::refuse_pooler(&records, &identity).await?,
        }
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let writers = connections - identity.len() - records.len() - lists;
        Ok(Self {
            lists: pool(lists_connector, lists, options)?,
            list_shares: ConnectionShares::new(lists - 1, lists),
            transactions: pool(connector.reading_outside(), writers, options)?,
            write_shares: ConnectionShares::new(writers.saturating_sub(2), writers - 1),
            busy_timeout: options.busy_timeout,
            identity,
            records,
            types,
            threads: LocalPoolHandle::new(threads),
        })
    }

    pub(crate) async fn write<T, E, F>(&self, share: Share, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (pool, phase) = (self.transactions.clone(), Phase::default());
        let inside = phase.clone();
        let turn = self.turn(share).await?;
        let run = async move || {
            let _turn = turn;
            let mut attempt = 1;
            loop {
                match transaction::run(connection_of(&pool).await?, &work, &inside).await {
                    Err(failed) if failed.again && attempt < ATTEMPTS => {
                        tokio::time::sleep(pause(attempt)).await;
                        attempt += 1;
                    }
                    result => return result.map_err(|failed| failed.error),
                }
            }
        };
        self.run(phase, run).await
    }

    pub(crate) async fn read<T, E, F>(&self, lane: Lane, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let Lane::Lists(share) = lane else {
            let connection = self.pick(lane);
            let read = async move || work(&Tx::new(Inner::Postgres(Open::reading(connection)))).await;
            return self.run(Phase::default(), read).await;
        };
        let _turn = self.list_shares.enter(share).await?;
        let connection = connection_of(&self.lists).await?;
        let read = async move || {
            let tx = Tx::new(Inner::Postgres(Open::listing(connection)));
            let result = work(&tx).await;
            if let Inner::Postgres(open) = tx.inner {
                open.end_snapshot();
            }
            result
        };
        self.run(Phase::default(), read).await
    }

    /// Waits for a share's turn to write. The program's own writes take none.
    fn turn(&self, share: Share) -> BoxFuture<'_, Result<Option<ConnectionTurn>, Error>> {
        Box::pin(async move {
            if share == Share::default() {
                return Ok(None);
            }
            let turn = tokio::time::timeout(self.busy_timeout, self.write_shares.enter(share)).await;
            turn.unwrap_or(Err(Error::Busy)).map(Some)
        })
    }

    /// Runs a closure to its end on one of the pinned threads.
    async fn run<T, E, F>(&self, phase: Phase, work: F) -> Result<T, E>
    where
        F: AsyncFnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let task = self.spawn(Box::new(move || {
            Box::pin(async move {
                let _gone = sender.send(work().await);
            })
        }));
        join(task, phase).await?;
        answer.await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }

    fn spawn(&self, make: Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>) -> JoinHandle<()> {
        let span = tracing::Span::current();
        self.threads.spawn_pinned(move || make().instrument(span))
    }

    pub(crate) fn close(&self) {
        self.transactions.manager().close();
        self.transactions.close();
        self.lists.close();
    }

    pub(crate) async fn listen(&self, channel: &str) -> Result<Listener, Error> {
        let connector = self.types.as_deref().map_or(self.transactions.manager(), Types::direct);
        Listener::open(connector, channel).await
    }

    pub(crate) fn execute<'a>(&'a self, sql: &'a Sql, params: &'a [Value]) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move { self.records.pick().execute(sql, params).await })
    }

    pub(crate) fn query<'a>(
        &'a self,
        lane: Lane,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(async move { decode::rows(&self.pick(lane).query(sql, params).await?, sql) })
    }

    /// Goes on to its end even when the caller goes away, so that a committed write never misses `after_commit`.
    pub(crate) async fn write_fold<A, F, C>(
        &self,
        sql: Sql,
        params: Vec<Value>,
        start: A,
        each: F,
        after_commit: C,
    ) -> Result<A, Error>
    where
        A: Send + 'static,
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error> + Send + 'static,
        C: FnOnce(&A) + Send + 'static,
    {
        let lane = self.records.pick();
        let write = async move {
            let result = decode::fold(&lane.query(&sql, &params).await?, start, each)?;
            run_action(|| after_commit(&result));
            Ok(result)
        };
        let task = tokio::spawn(write.instrument(tracing::Span::current()));
        task.await.unwrap_or_else(|failed| Err(ended(failed)))
    }

    pub(crate) async fn fold<A>(
        &self,
        lane: Lane,
        sql: &Sql,
        params: &[Value],
        start: A,
        each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    ) -> Result<A, Error> {
        decode::fold_stream(self.pick(lane).stream(sql, params).await?, sql, start, each).await
    }

    /// A shared connection for one statement. Lists that are one statement are short.
    fn pick(&self, lane: Lane) -> Arc<Connections> {
        match lane {
            Lane::Identity => self.identity.pick(),
            Lane::Records | Lane::Lists(_) => self.records.pick(),
        }
    }
}

fn pool(connector: Connector, size: usize, options: &Options) -> Result<Pool<Connector>, OpenError> {
    Pool::builder(connector)
        .max_size(size.max(1))
        .runtime(deadpool::Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(options.busy_timeout),
            create: Some(connection::TIMEOUT),
            recycle: Some(connection::TIMEOUT),
        })
        .build()
        .map_err(|error| OpenError::Url(error.to_string()))
}

/// Waits for a task on the pinned threads. Dropping the wait drops the task, and with it its transaction, unless that
/// is already being committed: then it goes on to its end.
fn join(task: JoinHandle<()>, phase: Phase) -> BoxFuture<'static, Result<(), Error>> {
    struct EndOnDrop(JoinHandle<()>, Phase);
    impl Drop for EndOnDrop {
        fn drop(&mut self) {
            if self.1.abandon() {
                self.0.abort();
            }
        }
    }
    let mut task = EndOnDrop(task, phase);
    Box::pin(async move { (&mut task.0).await.map_err(ended) })
}

fn connection_of(pool: &Pool<Connector>) -> BoxFuture<'_, Result<Object<Connector>, Error>> {
    Box::pin(async move { pool.get().await.map_err(no_connection) })
}

/// A pause of random length, so that transactions which collided do not collide again.
fn pause(attempt: u32) -> Duration {
    // Each state is keyed at random. No secret depends on this.
    let random = RandomState::new().hash_one(attempt);
    PAUSE.saturating_mul(1 << attempt.saturating_sub(1)) / 1_000 * u32::try_from(random % 1_000).unwrap_or_default()
}

fn ended(failed: JoinError) -> Error {
    if !failed.is_panic() {
        return Error::Closed;
    }
    Error::Panicked(panic_message(&*failed.into_panic()).to_owned())
}

fn no_connection(error: PoolError<Error>) -> Error {
    match error {
        PoolError::Timeout(_) => Error::Busy,
        PoolError::Closed => Error::Closed,
        PoolError::Backend(error) => error,
        other => Error::ConnectionLost(other.to_string()),
    }
}
