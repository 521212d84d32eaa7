use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, NoTls, RowStream, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::encode::Param;
use super::error::classify;
use super::types::Types;
use crate::engine::totals::Totals;
use crate::sql::to_postgres;
use crate::{Error, Sql, Value};

/// How long a server may take to open a connection, or to cancel a statement.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Limit of prepared statements per connection. When it is reached, all are dropped, so that callers who send new
/// filters each time cannot fill the server's memory.
const STATEMENTS: usize = 512;

/// How long a cancelled statement may take to end before it is cancelled again.
const BETWEEN_CANCELS: Duration = Duration::from_millis(100);

/// A connection with its prepared statements.
pub(super) struct Connection {
    client: Client,
    statements: Mutex<HashMap<Sql, Statement>>,
    /// By snapshot.
    totals: Mutex<Totals<String>>,
    /// Whether the server's snapshots include all transactions; queried before the first count.
    is_whole: OnceCell<bool>,
    /// A transaction, or a list, was begun here and has not ended. Such a connection is closed, never reused.
    open: std::sync::atomic::AtomicBool,
    canceller: Canceller,
    pooled: Option<Pooled>,
}

/// State of a connection whose server side may change in each transaction.
pub(super) struct Pooled {
    pub(super) types: Arc<Types>,
    /// Statements that set the limits of one transaction.
    pub(super) limits: String,
}

/// A statement that is ready to be sent.
enum Ready {
    Prepared(Statement),
    /// Sent with its text each time: the server side that prepared it may belong to another client by now.
    Typed {
        text: String,
        types: Arc<[Type]>,
    },
}

/// Stops the statement that a connection runs.
pub(super) struct Canceller {
    pub(super) token: CancelToken,
    pub(super) tls: Option<MakeRustlsConnect>,
    pub(super) runtime: Handle,
}

impl Connection {
    pub(super) fn new(client: Client, canceller: Canceller, pooled: Option<Pooled>) -> Self {
        Self {
            client,
            statements: Mutex::default(),
            totals: Mutex::default(),
            is_whole: OnceCell::new(),
            open: false.into(),
            canceller,
            pooled,
        }
    }

    /// Stops the running statement, without waiting, and closes the connection.
    ///
    /// The server ignores a cancel request that arrives before the statement has begun. So requests are sent until the
    /// connection responds again.
    pub(super) fn abandon(self) {
        let Self { client, canceller: Canceller { token, tls, runtime }, .. } = self;
        runtime.spawn(async move {
            let mut answers = std::pin::pin!(client.batch_execute("ROLLBACK"));
            let stopped = async {
                loop {
                    let sent = match tls.clone() {
                        Some(tls) => token.cancel_query(tls).await,
                        None => token.cancel_query(NoTls).await,
                    };
                    if let Err(error) = sent {
                        tracing::debug!(%error, "cannot cancel a statement");
                    }
                    // An answer, an error or a lost connection: in each case the statement has ended.
                    if tokio::time::timeout(BETWEEN_CANCELS, &mut answers).await.is_ok() {
                        break;
                    }
                }
            };
            if tokio::time::timeout(TIMEOUT, stopped).await.is_err() {
                tracing::warn!("a statement whose caller has gone was not stopped");
            }
        });
    }

    pub(super) fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    /// The counts that this connection caches.
    pub(super) fn totals(&self) -> &Mutex<Totals<String>> {
        &self.totals
    }

    pub(super) fn is_whole(&self) -> &OnceCell<bool> {
        &self.is_whole
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.is_closed() && !self.open.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Marks that a transaction is open, or has ended.
    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, std::sync::atomic::Ordering::Relaxed);
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await.map_err(|error| classify(error, sql))
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        self.set_open(true);
        match &self.pooled {
            None => self.batch("BEGIN READ WRITE").await,
            Some(pooled) => self.batch(&format!("BEGIN READ WRITE; {}", pooled.limits)).await,
        }
    }

    /// Whether a BEGIN may go to the server together with the statement behind it: should it fail, the statement writes nothing.
    /// Behind a pooler it could land on another session.
    pub(super) fn may_pipeline_begin(&self) -> bool {
        self.pooled.is_none()
    }

    /// Begins a read that may be cancelled. Behind a pooler it is a transaction, so that the limits and the server side
    /// stay the same.
    pub(super) async fn begin_list(&self) -> Result<(), Error> {
        self.set_open(true);
        match &self.pooled {
            None => Ok(()),
            Some(pooled) => self.batch(&format!("BEGIN READ ONLY; {}", pooled.limits)).await,
        }
    }

    /// Begins reads that may be cancelled, all with one snapshot of the database as it is now, and with further `settings`.
    pub(super) async fn begin_snapshot(&self, settings: &str) -> Result<(), Error> {
        self.set_open(true);
        let limits = self.pooled.as_ref().map(|pooled| &*pooled.limits).unwrap_or_default();
        self.batch(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {limits}; {settings}")).await
    }

    /// Ends what [`begin_snapshot`](Self::begin_snapshot) has begun.
    pub(super) async fn end_snapshot(&self) {
        if self.batch("COMMIT").await.is_ok() {
            self.set_open(false);
        }
    }

    /// Ends what [`begin_list`](Self::begin_list) has begun.
    pub(super) async fn end_list(&self) {
        if self.pooled.is_none() || self.batch("COMMIT").await.is_ok() {
            self.set_open(false);
        }
    }

    pub(super) async fn execute(&self, sql: &Sql, params: &[Value]) -> Result<u64, Error> {
        let ready = self.ready(sql, params).await?;
        let params: Vec<Param<'_>> = params.iter().map(Param).collect();
        let params = params.iter().map(|param| param as &(dyn ToSql + Sync));
        let sent = match &ready {
            Ready::Prepared(statement) => self.client.execute(statement, &params.collect::<Vec<_>>()).await,
            Ready::Typed { text, types } => {
                let params: Vec<_> = params.zip(types.iter().cloned()).collect();
                self.client.execute_typed(text, &params).await
            }
        };
        sent.map_err(|error| self.failed(error, sql))
    }

    pub(super) async fn query(&self, sql: &Sql, params: &[Value]) -> Result<Vec<tokio_postgres::Row>, Error> {
        let ready = self.ready(sql, params).await?;
        self.query_ready(&ready, sql, params).await
    }

    async fn query_ready(&self, ready: &Ready, sql: &Sql, params: &[Value]) -> Result<Vec<tokio_postgres::Row>, Error> {
        let params: Vec<Param<'_>> = params.iter().map(Param).collect();
        let params = params.iter().map(|param| param as &(dyn ToSql + Sync));
        let sent = match ready {
            Ready::Prepared(statement) => self.client.query(statement, &params.collect::<Vec<_>>()).await,
            Ready::Typed { text, types } => {
                let params: Vec<_> = params.zip(types.iter().cloned()).collect();
                self.client.query_typed(text, &params).await
            }
        };
        sent.map_err(|error| self.failed(error, sql))
    }

    /// Runs statements in one transaction, in which each may take `limit`, and returns the rows of each. If one fails, none has changed
    /// anything; if the connection is lost, this is unknown.
    ///
    /// Once the transaction has begun, everything is sent at once. Sent before that, each statement would commit alone if BEGIN failed. The
    /// caller has the connection alone: another statement would become a part of the transaction.
    pub(super) async fn together(
        &self,
        statements: &[(Sql, Vec<Value>)],
        limit: Duration,
    ) -> Result<Vec<Vec<tokio_postgres::Row>>, Error> {
        if self.is_pooled() {
            return Err(Error::other("BEGIN".to_owned(), "behind a pooler, each statement is sent alone"));
        }
        let mut ready = Vec::with_capacity(statements.len());
        for (sql, params) in statements {
            ready.push(self.ready(sql, params).await?);
        }
        let begin = format!("BEGIN READ WRITE; SET LOCAL statement_timeout = {}", limit.as_millis());
        if let Err(error) = self.batch(&begin).await {
            // Others use the connection next.
            self.batch("ROLLBACK").await?;
            return Err(error);
        }
        let run = ready.iter().zip(statements).map(|(ready, (sql, params))| self.query_ready(ready, sql, params));
        // Each is sent when it is polled first, in this order. After a failed statement, COMMIT rolls back.
        let (rows, committed) = join(join_all(run), self.batch("COMMIT")).await;
        let rows = rows.into_iter().collect::<Result<_, _>>()?;
        committed?;
        Ok(rows)
    }

    /// Sends a query whose rows are read one by one, so that an answer of any size is never in memory as a whole.
    pub(super) async fn stream(&self, sql: &Sql, params: &[Value]) -> Result<RowStream, Error> {
        let sent = match self.ready(sql, params).await? {
            Ready::Prepared(statement) => self.client.query_raw(&statement, params.iter().map(Param)).await,
            Ready::Typed { text, types } => {
                self.client.query_typed_raw(&text, params.iter().map(Param).zip(types.iter().cloned())).await
            }
        };
        sent.map_err(|error| self.failed(error, sql))
    }

    async fn ready(&self, sql: &Sql, params: &[Value]) -> Result<Ready, Error> {
        tracing::trace!(target: crate::STATEMENT_LOG, "{sql}");
        let ready = match &self.pooled {
            None => Ready::Prepared(self.prepared(sql).await?),
            Some(pooled) => {
                // Within a transaction, the server side belongs to this client, and has tables that other clients do not
                // see yet.
                let own = self.open.load(std::sync::atomic::Ordering::Relaxed).then_some(&self.client);
                Ready::Typed { text: to_postgres(sql.as_str()), types: pooled.types.of(sql, own).await? }
            }
        };
        let expected = match &ready {
            Ready::Prepared(statement) => statement.params().len(),
            Ready::Typed { types, .. } => types.len(),
        };
        if expected != params.len() {
            let mismatch = format!("{} values for {expected} placeholders", params.len());
            return Err(Error::other(sql.to_string(), mismatch));
        }
        Ok(ready)
    }

    /// The first row of a query without placeholders, as text.
    pub(super) async fn simple(&self, text: &str) -> Result<Vec<Option<String>>, Error> {
        let messages = self.client.simple_query(text).await.map_err(|error| classify(error, text))?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(row.map_or_else(Vec::new, |row| (0..row.len()).map(|index| row.get(index).map(str::to_owned)).collect()))
    }

    /// Has the server prepare a statement, and nothing more.
    pub(super) async fn describe(&self, text: &str) -> Result<Statement, tokio_postgres::Error> {
        self.client.prepare(text).await
    }

    async fn prepared(&self, sql: &Sql) -> Result<Statement, Error> {
        if let Some(known) = self.statements.lock().get(sql) {
            return Ok(known.clone());
        }
        let text = to_postgres(sql.as_str());
        let prepared = self.client.prepare(&text).await.map_err(|error| classify(error, sql.as_str()))?;
        if sql.is_worth_keeping() {
            let mut statements = self.statements.lock();
            if statements.len() >= STATEMENTS {
                statements.clear();
            }
            statements.insert(sql.clone(), prepared.clone());
        }
        Ok(prepared)
    }

    /// Drops a statement whose plan no longer fits the tables, so that the next call prepares it again.
    fn failed(&self, error: tokio_postgres::Error, sql: &Sql) -> Error {
        if super::error::is_stale_plan(&error) {
            self.statements.lock().remove(sql);
        }
        if let Some(pooled) = &self.pooled {
            pooled.types.failed(&error, sql);
        }
        classify(error, sql.as_str())
    }
}
