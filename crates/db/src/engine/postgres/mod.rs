//! Postgres: single statements over a few shared, pipelined connections ([`lanes`]; those that read records: [`reads`], by
//! [`callers`]; those that write: [`writes`]), transactions and [`lists`] on connections of their own from pools ([`transaction`]),
//! notifications on one more each ([`listen`]). [`connect`] opens connections, which [`tls`] encrypts as the [`url`] says; [`encode`], [`decode`] and
//! [`numeric`] implement the binary format.
//!
//! The futures that callers wait for are boxed by functions without type parameters. The future of an `async fn` is
//! compiled again for each generic caller, here for each transaction of a program: that would be megabytes.

mod callers;
mod connect;
mod connection;
mod decode;
mod encode;
mod error;
mod export;
mod lanes;
mod listen;
mod lists;
mod numeric;
mod reads;
mod threads;
mod tls;
mod together;
mod totals;
mod transaction;
mod types;
mod url;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError, Timeouts};
use futures_util::future::BoxFuture;

pub(crate) use decode::{columns, value};
pub(crate) use export::Pieces;
pub use listen::Listener;
pub(crate) use tokio_postgres::Row as DriverRow;
pub(crate) use transaction::Open;

use crate::row::RowRef;
use crate::tx::Inner;
use crate::{Error, Lane, OpenError, Options, Row, Share, Sql, Tx, Value};
use connect::Connector;
use lanes::Lanes;
use lists::Lists;
use reads::Reads;
use threads::Threads;
use transaction::Phase;
use types::Types;
use writes::{Statements, Transactions};

pub(crate) struct Postgres {
    records: Arc<Reads>,
    identity: Lanes,
    lists: Arc<Lists>,
    transactions: Arc<Transactions>,
    statements: Arc<Statements>,
    /// Behind a pooler.
    types: Option<Arc<Types>>,
    threads: Threads,
    exports: Connector,
}

/// Checks the form of a URL.
pub(crate) fn check_url(url: &str) -> Result<(), OpenError> {
    url::parse(url).map(|_| ())
}

/// Whether other computers may read what is sent to the server of a URL.
pub(crate) fn is_exposed(url: &str) -> bool {
    url::parse(url).is_ok_and(|url| url.is_exposed())
}

/// How long a check of the encoding may take.
const CHECK: Duration = Duration::from_secs(3);

/// Refuses a database that answers with another encoding than UTF8. A server that does not answer is not refused.
pub(crate) async fn check_encoding(url: &str, options: &Options) -> Result<(), OpenError> {
    let Ok(connector) = Connector::new(url, options, None) else { return Ok(()) };
    let lane = lanes::Lane::new(connector);
    match tokio::time::timeout(CHECK, lane.connector().connect()).await {
        Ok(Err(error @ Error::Encoding(_))) => Err(lane.unusable(error)),
        _ => Ok(()),
    }
}

impl Postgres {
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self, OpenError> {
        let direct = options.direct_url.as_ref().map(|url| Connector::new(url.expose(), options, None)).transpose()?;
        let types = direct.map(|direct| Arc::new(Types::new(direct)));
        let connector = Connector::new(url, options, types.clone())?;
        let lists_options = Options { statement_timeout: options.list_timeout, ..options.clone() };
        let lists_connector = Connector::new(url, &lists_options, types.clone())?;
        // At least one of each kind, and one for transactions that no share may use.
        let connections = options.max_connections.get().max(6);
        let (identity, records) =
            ((connections / 8).clamp(1, 4), (connections * 3 / 16).clamp(1, callers::CONNECTIONS));
        let (statements, lists) = ((connections * 3 / 16).clamp(1, 8), (connections / 4).clamp(1, 8));
        let records = Lanes::new(&connector.clone().for_short_statements(reads::LIMIT), records);
        let identity = Lanes::new(&connector.clone().for_single_statements(Duration::ZERO), identity);
        let threads = Threads::new();
        let writers = connections - identity.len() - records.len() - statements - lists;
        let transactions = Arc::new(Transactions::new(connector.clone(), writers, threads.clone(), options)?);
        let statements = Arc::new(Statements::new(&connector, statements, transactions.clone()));
        identity.try_one().await?;
        match &types {
            Some(types) => types.check_same_database(&identity.pick()).await?,
            // Not over those for records, where a statement may be stopped.
            None => lanes::refuse_pooler(&identity, statements.lanes()).await?,
        }
        let exports = connector;
        let lists = Arc::new(Lists::new(lists_connector, lists, transactions.clone(), options)?);
        let records = Arc::new(Reads::new(records, lists.clone(), types.is_none()));
        Ok(Self { records, identity, lists, transactions, statements, types, threads, exports })
    }

    pub(crate) async fn write<T, E, F>(&self, share: Share, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.transactions.write(share, work).await
    }

    pub(crate) async fn read<T, E, F>(&self, lane: Lane, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let mut open = self.open_for(lane).await?;
        let read = async move || {
            loop {
                let tx = Tx::new(Inner::Postgres(open));
                let result = work(&tx).await;
                let Inner::Postgres(ended) = tx.inner else { return result };
                match ended.end() {
                    Some(again) => open = again.apart().await?,
                    None => return result,
                }
            }
        };
        self.threads.run(Phase::default(), read).await
    }

    /// Runs one query whose rows become bytes, on a connection of its own.
    pub(crate) fn export<F>(&self, sql: Sql, params: Vec<Value>, time: Duration, write: F) -> Pieces
    where
        F: FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error> + Send + 'static,
    {
        export::export(self.exports.clone(), sql, params, time, write)
    }

    pub(crate) fn close(&self) {
        self.transactions.close();
        self.lists.close();
    }

    pub(crate) async fn listen(&self, channel: &str) -> Result<Listener, Error> {
        let connector = self.types.as_deref().map_or(self.transactions.connector(), Types::direct);
        Listener::open(connector, channel).await
    }

    pub(crate) fn execute<'a>(
        &'a self,
        share: Share,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<u64, Error>> {
        self.statements.execute(share, sql, params)
    }

    /// Runs one writing statement that returns rows.
    pub(crate) fn write_rows<'a>(
        &'a self,
        share: Share,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(async move { decode::rows(&self.statements.query(share, sql, params).await?, sql) })
    }

    pub(crate) fn query<'a>(
        &'a self,
        lane: Lane,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(async move {
            let mut open = self.open_single(lane).await?;
            loop {
                let rows = open.raw_any(sql, params).await;
                match open.end() {
                    Some(again) => open = again.apart().await?,
                    None => return decode::rows(&rows?, sql),
                }
            }
        })
    }

    pub(crate) async fn write_fold<A, F, C>(
        &self,
        share: Share,
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
        self.statements.fold(share, (sql, params), start, each, after_commit).await
    }

    pub(crate) async fn fold<A: Clone>(
        &self,
        lane: Lane,
        sql: &Sql,
        params: &[Value],
        start: A,
        mut each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    ) -> Result<A, Error> {
        let mut open = self.open_single(lane).await?;
        loop {
            let folded = open.fold_any(sql, params, start.clone(), &mut each).await;
            match open.end() {
                Some(again) => open = again.apart().await?,
                None => return folded,
            }
        }
    }

    /// Connections for a read of several statements.
    async fn open_for(&self, lane: Lane) -> Result<Open, Error> {
        match lane {
            Lane::Identity | Lane::Records(_) => self.open_single(lane).await,
            Lane::Lists(share) => self.lists.open(share).await,
        }
    }

    /// Connections for one statement. Lists that are one statement are short.
    async fn open_single(&self, lane: Lane) -> Result<Open, Error> {
        match lane {
            Lane::Identity => Ok(Open::reading(self.identity.pick())),
            Lane::Records(share) | Lane::Lists(share) => self.records.open(share).await,
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

fn connection_of(pool: &Pool<Connector>) -> BoxFuture<'_, Result<Object<Connector>, Error>> {
    Box::pin(async move { pool.get().await.map_err(no_connection) })
}

fn no_connection(error: PoolError<Error>) -> Error {
    match error {
        PoolError::Timeout(_) => Error::Busy,
        PoolError::Closed => Error::Closed,
        PoolError::Backend(error) => error,
        other => Error::ConnectionLost(other.to_string()),
    }
}
