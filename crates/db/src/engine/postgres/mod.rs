//! Postgres: single statements over a few shared, pipelined connections ([`lanes`]), transactions on connections of
//! their own from a pool ([`transaction`]), notifications on one more each ([`listen`]). [`connect`] makes connections and says which TLS they use; [`encode`],
//! [`decode`] and [`numeric`] speak the binary format.

mod connect;
mod connection;
mod decode;
mod encode;
mod error;
mod lanes;
mod listen;
mod numeric;
mod transaction;

use deadpool::managed::{Pool, PoolError, Timeouts};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::LocalPoolHandle;
use tracing::Instrument;

pub(crate) use decode::value;
pub use listen::Listener;
pub(crate) use transaction::Open;

use crate::row::RowRef;
use crate::tx::{Inner, panic_message, run_action};
use crate::{Error, OpenError, Options, Row, Sql, Tx, Value};
use connect::Connector;
use lanes::Lanes;
use transaction::Phase;

/// How often a transaction is run again after a serialization failure or a deadlock.
const ATTEMPTS: u32 = 4;

pub(crate) struct Postgres {
    lanes: Lanes,
    pool: Pool<Connector>,
    /// Closures may be `!Send`: each runs to its end on one of these threads.
    threads: LocalPoolHandle,
}

impl Postgres {
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self, OpenError> {
        let connector = Connector::new(url, options)?;
        let connections = options.max_connections.get().max(2);
        let shared = (connections / 2).clamp(1, 8);
        let pool = Pool::builder(connector.clone())
            .max_size(connections - shared)
            .runtime(deadpool::Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(options.busy_timeout),
                create: Some(connect::TIMEOUT),
                recycle: Some(connect::TIMEOUT),
            })
            .build()
            .map_err(|error| OpenError::Url(error.to_string()))?;
        let lanes = Lanes::new(&connector, shared);
        lanes.try_one().await?;
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Ok(Self { lanes, pool, threads: LocalPoolHandle::new(threads) })
    }

    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (pool, span, phase) = (self.pool.clone(), tracing::Span::current(), Phase::default());
        let inside = phase.clone();
        let task = self.threads.spawn_pinned(move || {
            async move {
                let mut attempt = 1;
                loop {
                    let connection = pool.get().await.map_err(no_connection)?;
                    match transaction::run(connection, &work, &inside).await {
                        Err(failed) if failed.again && attempt < ATTEMPTS => attempt += 1,
                        result => return result.map_err(|failed| failed.error),
                    }
                }
            }
            .instrument(span)
        });
        join(task, phase).await
    }

    pub(crate) async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let lane = self.lanes.pick();
        let span = tracing::Span::current();
        let read = move || {
            async move {
                let tx = Tx::new(Inner::Postgres(Open::reading(lane)));
                work(&tx).await
            }
            .instrument(span)
        };
        join(self.threads.spawn_pinned(read), Phase::default()).await
    }

    pub(crate) async fn listen(&self, channel: &str) -> Result<Listener, Error> {
        Listener::open(self.pool.manager(), channel).await
    }

    pub(crate) async fn execute(&self, sql: &Sql, params: &[Value]) -> Result<u64, Error> {
        self.lanes.pick().execute(sql, params).await
    }

    pub(crate) async fn query(&self, sql: &Sql, params: &[Value]) -> Result<Vec<Row>, Error> {
        decode::rows(&self.lanes.pick().query(sql, params).await?, sql)
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
        let lane = self.lanes.pick();
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
        sql: &Sql,
        params: &[Value],
        start: A,
        each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    ) -> Result<A, Error> {
        decode::fold_stream(self.lanes.pick().stream(sql, params).await?, sql, start, each).await
    }
}

/// Waits for a task on the pinned threads. Dropping the wait drops the task, and with it its transaction, unless that
/// is already being committed: then it goes on to its end.
async fn join<T, E: From<Error>>(task: JoinHandle<Result<T, E>>, phase: Phase) -> Result<T, E> {
    struct EndOnDrop<T>(JoinHandle<T>, Phase);
    impl<T> Drop for EndOnDrop<T> {
        fn drop(&mut self) {
            if self.1.abandon() {
                self.0.abort();
            }
        }
    }
    let mut task = EndOnDrop(task, phase);
    (&mut task.0).await.unwrap_or_else(|failed| Err(ended(failed).into()))
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
        PoolError::Backend(error) => error,
        other => Error::ConnectionLost(other.to_string()),
    }
}
