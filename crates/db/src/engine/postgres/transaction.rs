use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use deadpool::managed::Object;
use futures_util::future::{BoxFuture, join};
use gatewright_base::Turn;
use tokio_postgres::RowStream;

use super::connect::Connector;
use super::connection::{self, Connection};
use super::decode;
use super::lanes::Lane;
use super::reads::{self, Place, Reading};
use crate::resting;
use crate::row::{RowRef, ValueRef};
use crate::tx::{Inner, run_action};
use crate::{Error, Row, Sql, Tx, Value};

/// The connection of a [`Tx`](crate::Tx): its own, or one that it only reads from.
pub(crate) struct Open {
    work: Work,
    /// The server requires the whole transaction to run again.
    conflicted: AtomicBool,
}

enum Work {
    Transaction {
        connection: Box<Taken>,
        begun: AtomicBool,
        /// The bytes that its statements have written.
        written: Arc<AtomicU64>,
    },
    Reading(Arc<Lane>),
    /// Reads over connections that callers share. A slow one is stopped.
    Sharing(Reading),
    Listing(Listing),
}

/// One read after the other on one connection, so that a statement can be stopped without stopping another caller's.
struct Listing {
    connection: Box<Taken>,
    snapshot: AtomicU8,
    /// The single reads that run here, apart from those of other callers.
    apart: Option<Reading>,
    _turn: Option<Turn>,
}

/// Whether all reads of a list see one snapshot.
mod snapshot {
    /// Each sees its own.
    pub(super) const NONE: u8 = 0;
    /// It begins with the next read.
    pub(super) const WANTED: u8 = 1;
    pub(super) const BEGUN: u8 = 2;
}

/// A connection from the pool. If it is dropped in the middle of a transaction, it is closed: the server rolls back and
/// releases its locks at once, and the pool never passes an open transaction to the next user.
struct Taken(Option<Object<Connector>>);

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take_if(|connection| !connection.is_usable()) {
            // The server notices a closed connection only when the statement that runs has ended.
            Object::take(connection).abandon();
        }
    }
}

impl Deref for Taken {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0.as_deref().expect("it is taken out only on drop")
    }
}

/// Who decides how a transaction ends: its caller, by going away, or the transaction, by beginning to commit. The first
/// one wins.
#[derive(Clone, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    const RUNNING: u8 = 0;
    const COMMITTING: u8 = 1;
    const ABANDONED: u8 = 2;

    /// Whether the caller may still give up.
    pub(super) fn abandon(&self) -> bool {
        self.decide(Self::ABANDONED)
    }

    fn begin_commit(&self) -> bool {
        self.decide(Self::COMMITTING)
    }

    fn decide(&self, phase: u8) -> bool {
        match self.0.compare_exchange(Self::RUNNING, phase, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            // A transaction that runs again commits a second time.
            Err(before) => before == phase,
        }
    }
}

/// A transaction that did not commit.
pub(super) struct Failed<E> {
    pub(super) error: E,
    /// Whether running it again may succeed.
    pub(super) again: bool,
}

/// Runs `work` in one transaction on `connection`.
pub(super) async fn run<T, E: From<Error>>(
    connection: Object<Connector>,
    work: &impl AsyncFn(&Tx) -> Result<T, E>,
    phase: &Phase,
    written: &Arc<AtomicU64>,
) -> Result<T, Failed<E>> {
    let tx = Tx::new(Inner::Postgres(Open::transaction(connection, written.clone())));
    let result = work(&tx).await;
    let Tx { inner: Inner::Postgres(open), after } = tx else {
        return Err(Failed { error: Error::Closed.into(), again: false });
    };
    let conflicted = open.conflicted.load(Ordering::Relaxed);
    match result {
        Ok(value) if phase.begin_commit() => match open.commit().await {
            Ok(()) => {
                after.into_inner().into_iter().for_each(run_action);
                Ok(value)
            }
            Err(error) => {
                let again = matches!(error, Error::Serialization);
                Err(Failed { error: error.into(), again })
            }
        },
        Ok(_) => {
            open.roll_back().await;
            Err(Failed { error: Error::Closed.into(), again: false })
        }
        Err(error) => {
            open.roll_back().await;
            Err(Failed { error, again: conflicted })
        }
    }
}

impl Open {
    /// A transaction on `connection`. It begins with its first statement: a closure that runs none costs nothing.
    fn transaction(connection: Object<Connector>, written: Arc<AtomicU64>) -> Self {
        let connection = Box::new(Taken(Some(connection)));
        let work = Work::Transaction { connection, begun: AtomicBool::new(false), written };
        Self { work, conflicted: AtomicBool::new(false) }
    }

    pub(super) fn reading(lane: Arc<Lane>) -> Self {
        Self { work: Work::Reading(lane), conflicted: AtomicBool::new(false) }
    }

    pub(super) fn sharing(reading: Reading) -> Self {
        Self { work: Work::Sharing(reading), conflicted: AtomicBool::new(false) }
    }

    /// Reads on a separate connection, whose running statement is stopped when this is dropped.
    pub(super) fn listing(connection: Object<Connector>, turn: Option<Turn>) -> Self {
        let (connection, snapshot) = (Box::new(Taken(Some(connection))), AtomicU8::new(snapshot::NONE));
        let work = Work::Listing(Listing { connection, snapshot, apart: None, _turn: turn });
        Self { work, conflicted: AtomicBool::new(false) }
    }

    /// The same for single reads, in one transaction with settings of their own.
    pub(super) fn apart(connection: Object<Connector>, turn: Option<Turn>, reading: Reading) -> Self {
        let (connection, snapshot) = (Box::new(Taken(Some(connection))), AtomicU8::new(snapshot::WANTED));
        let work = Work::Listing(Listing { connection, snapshot, apart: Some(reading), _turn: turn });
        Self { work, conflicted: AtomicBool::new(false) }
    }

    /// A failed or dropped commit leaves the connection marked open, so that it is closed.
    fn commit(self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            if let Work::Transaction { connection, begun, .. } = self.work
                && begun.load(Ordering::Relaxed)
            {
                connection.batch("COMMIT").await?;
                connection.set_open(false);
            }
            Ok(())
        })
    }

    fn roll_back(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Work::Transaction { connection, begun, .. } = self.work
                && begun.load(Ordering::Relaxed)
                && connection.batch("ROLLBACK").await.is_ok()
            {
                connection.set_open(false);
            }
        })
    }

    pub(crate) fn execute<'a>(&'a self, sql: &'a Sql, params: &'a [Value]) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let result = match &self.work {
                Work::Transaction { connection, begun, written } => {
                    written.fetch_add(resting::written(params), Ordering::Relaxed);
                    begin(connection, begun, connection.execute(sql, params)).await
                }
                Work::Reading(_) | Work::Sharing(_) | Work::Listing(_) => Err(Error::ReadOnly),
            };
            self.noted(result)
        })
    }

    pub(crate) fn query<'a>(&'a self, sql: &'a Sql, params: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(async move { decode::rows(&self.raw(sql, params).await?, sql) })
    }

    pub(crate) async fn fold<A>(
        &self,
        sql: &Sql,
        params: &[Value],
        start: A,
        each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    ) -> Result<A, Error> {
        self.check(sql)?;
        self.fold_any(sql, params, start, each).await
    }

    /// The same for a statement of any kind, which the server refuses if it is not allowed.
    pub(super) async fn fold_any<A>(
        &self,
        sql: &Sql,
        params: &[Value],
        start: A,
        each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    ) -> Result<A, Error> {
        let (rows, place) = self.stream(sql, params).await?;
        let mut bytes = 0;
        let folded = self.noted(decode::fold_stream(rows, &mut bytes, sql, start, each).await);
        if let Some(place) = place {
            place.end(bytes, folded.as_ref().err());
        }
        self.end_list().await;
        folded
    }

    fn stream<'a>(
        &'a self,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<(RowStream, Option<Place<'a>>), Error>> {
        Box::pin(async move {
            let rows = match &self.work {
                Work::Transaction { connection, begun, written } => {
                    if sql.verb() != "SELECT" {
                        written.fetch_add(resting::written(params), Ordering::Relaxed);
                    }
                    begin(connection, begun, connection.stream(sql, params)).await.map(|rows| (rows, None))
                }
                Work::Reading(lane) => lane.stream(sql, params).await.map(|rows| (rows, None)),
                Work::Sharing(reading) => reading.stream(sql, params).await.map(|(rows, place)| (rows, Some(place))),
                Work::Listing(list) => {
                    let place = list.apart.as_ref().map(Reading::own);
                    list.begin(list.connection.stream(sql, params)).await.map(|rows| (rows, place))
                }
            };
            self.noted(rows)
        })
    }

    fn end_list(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Work::Listing(list) = &self.work {
                list.end().await;
            }
        })
    }

    /// From the next statement on, a list's reads see the database as it is then.
    pub(crate) fn one_snapshot(&self) {
        if let Work::Listing(list) = &self.work {
            let (from, to) = (snapshot::NONE, snapshot::WANTED);
            let _begun_before = list.snapshot.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Ends reads. Returns those that have to run again, apart.
    ///
    /// The caller does not wait for the end of a list's snapshot: everything is already read.
    pub(super) fn end(self) -> Option<Reading> {
        match self.work {
            Work::Transaction { .. } | Work::Reading(_) => {}
            Work::Sharing(reading) => return reading.was_stopped().then_some(reading),
            Work::Listing(Listing { connection, snapshot, .. }) => {
                if snapshot.into_inner() == snapshot::BEGUN {
                    // Not in time, the connection stays open, and is thrown away.
                    tokio::spawn(
                        async move { tokio::time::timeout(connection::TIMEOUT, connection.end_snapshot()).await },
                    );
                }
            }
        }
        None
    }

    /// Runs a query that is stopped after `time`, in a savepoint: if it fails, the transaction continues. The outer error is
    /// the transaction's own.
    pub(crate) async fn fold_within(
        &self,
        time: Duration,
        sql: &Sql,
        params: &[Value],
        mut each: impl FnMut(&RowRef<'_>) -> Result<(), Error>,
    ) -> Result<Result<(), Error>, Error> {
        let Work::Transaction { connection, begun, .. } = &self.work else { return Err(Error::ReadOnly) };
        if !begun.swap(true, Ordering::Relaxed) {
            connection.begin().await?;
        }
        let limit = format!("SAVEPOINT within; SET LOCAL statement_timeout = {}", time.as_millis().max(1));
        let query = async {
            decode::fold_stream(connection.stream(sql, params).await?, &mut 0, sql, (), |(), row| each(row)).await
        };
        // The first is polled, and so sent, first.
        let (limited, asked) = join(connection.batch(&limit), query).await;
        self.noted(limited)?;
        // That takes the time limit back too.
        self.noted(connection.batch("ROLLBACK TO SAVEPOINT within; RELEASE SAVEPOINT within").await)?;
        Ok(asked)
    }

    /// The one integer that a statement answers.
    pub(crate) async fn number(&self, sql: &Sql, params: &[Value]) -> Result<i64, Error> {
        let number = |number: &mut i64, row: &RowRef<'_>| {
            if let ValueRef::Int(value) = row.value(0)? {
                *number = value;
            }
            Ok(())
        };
        self.fold(sql, params, 0, number).await
    }

    /// The single integer that a statement returns. A list's connection may have it cached.
    pub(crate) fn count<'a>(&'a self, sql: &'a Sql, params: &'a [Value]) -> BoxFuture<'a, Result<i64, Error>> {
        Box::pin(async move {
            let Work::Listing(list) = &self.work else { return self.number(sql, params).await };
            self.check(sql)?;
            let counted = list.begin(list.connection.count(sql, params)).await;
            list.end().await;
            self.noted(counted)
        })
    }

    /// A [`fold`](Self::fold) and a [`count`](Self::count). A list sends both together.
    pub(crate) async fn fold_and_count<A>(
        &self,
        (sql, params): (&Sql, &[Value]),
        start: A,
        each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
        (count, count_params): (&Sql, &[Value]),
    ) -> Result<(A, i64), Error> {
        let Work::Listing(list) = &self.work else {
            let folded = self.fold(sql, params, start, each).await?;
            return Ok((folded, self.number(count, count_params).await?));
        };
        self.check(sql)?;
        self.check(count)?;
        let rows = list.connection.stream(sql, params);
        let fold = async { decode::fold_stream(rows.await?, &mut 0, sql, start, each).await };
        // The first one is polled first, and so sent first.
        // Boxed: several futures contain it, and each reserves room for it.
        let both = Box::pin(async { Ok(join(fold, list.connection.count(count, count_params)).await) });
        let both = list.begin(both).await;
        self.end_list().await;
        let (folded, counted) = self.noted(both)?;
        Ok((self.noted(folded)?, self.noted(counted)?))
    }

    pub(crate) fn execute_script<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            match &self.work {
                Work::Transaction { connection, begun, .. } => begin(connection, begun, connection.batch(sql)).await,
                Work::Reading(_) | Work::Sharing(_) | Work::Listing(_) => Err(Error::ReadOnly),
            }
        })
    }

    pub(super) async fn raw(&self, sql: &Sql, params: &[Value]) -> Result<Vec<tokio_postgres::Row>, Error> {
        self.check(sql)?;
        self.raw_any(sql, params).await
    }

    /// The same for a statement of any kind, which the server refuses if it is not allowed.
    pub(super) async fn raw_any(&self, sql: &Sql, params: &[Value]) -> Result<Vec<tokio_postgres::Row>, Error> {
        let result = match &self.work {
            Work::Transaction { connection, begun, .. } => {
                begin(connection, begun, connection.query(sql, params)).await
            }
            Work::Reading(lane) => lane.query(sql, params).await,
            Work::Sharing(reading) => reading.query(sql, params).await,
            Work::Listing(list) => {
                let place = list.apart.as_ref().map(Reading::own);
                let rows = list.begin(list.connection.query(sql, params)).await;
                if let Some(place) = place {
                    place.end(reads::size(rows.as_deref().unwrap_or_default()), rows.as_ref().err());
                }
                list.end().await;
                rows
            }
        };
        self.noted(result)
    }

    /// Outside of a transaction, statements only read.
    fn check(&self, sql: &Sql) -> Result<(), Error> {
        let is_allowed =
            matches!(self.work, Work::Transaction { .. }) || matches!(&*sql.verb(), "SELECT" | "WITH" | "VALUES");
        if is_allowed { Ok(()) } else { Err(Error::ReadOnly) }
    }

    fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if matches!(result, Err(Error::Serialization)) {
            self.conflicted.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Listing {
    /// Runs `statement` in the snapshot if there is one. Should the snapshot not begin, the statement has read something that is not
    /// used.
    async fn begin<T>(&self, statement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Self { connection, snapshot, apart, .. } = self;
        let wanted = snapshot.compare_exchange(snapshot::WANTED, snapshot::BEGUN, Ordering::Relaxed, Ordering::Relaxed);
        match wanted {
            Ok(_) => {
                let settings = apart.as_ref().map(Reading::settings).unwrap_or_default();
                together(connection, connection.begin_snapshot(settings), statement).await
            }
            Err(snapshot::BEGUN) => statement.await,
            Err(_) => {
                connection.begin_list().await?;
                statement.await
            }
        }
    }

    /// A statement has ended.
    async fn end(&self) {
        if self.snapshot.load(Ordering::Relaxed) != snapshot::BEGUN {
            self.connection.end_list().await;
        }
    }
}

/// Runs `statement`. Before the first one, BEGIN is sent to the server together with it. If BEGIN fails, nothing is
/// written outside of a transaction: these connections only [read](Connector::for_transactions) there.
async fn begin<T>(
    connection: &Connection,
    begun: &AtomicBool,
    statement: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if begun.swap(true, Ordering::Relaxed) {
        return statement.await;
    }
    together(connection, connection.begin(), statement).await
}

/// Sends the BEGIN together with the transaction's first statement, if both reach the same session.
async fn together<T>(
    connection: &Connection,
    begin: impl Future<Output = Result<(), Error>>,
    statement: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if !connection.may_pipeline_begin() {
        begin.await?;
        return statement.await;
    }
    // The first is polled, and so sent, first.
    let (opened, result) = join(begin, statement).await;
    opened?;
    result
}
