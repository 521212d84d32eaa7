use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{CancelToken, Client, NoTls, RowStream, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::TIMEOUT;
use super::encode::Param;
use super::error::classify;
use crate::sql::to_postgres;
use crate::{Error, Sql, Value};

/// Prepared statements kept per connection; past it all are forgotten, so that callers who make up ever new filters
/// cannot fill the server's memory.
const STATEMENTS: usize = 512;

/// How long a cancelled statement may take to end before it is cancelled again.
const BETWEEN_CANCELS: Duration = Duration::from_millis(100);

/// A connection with its prepared statements.
pub(super) struct Connection {
    client: Client,
    statements: Mutex<HashMap<Sql, Statement>>,
    /// A transaction, or a list, was begun here and has not ended. Such a connection is thrown away, never reused.
    open: std::sync::atomic::AtomicBool,
    canceller: Canceller,
}

/// Stops the statement that a connection runs.
pub(super) struct Canceller {
    pub(super) token: CancelToken,
    pub(super) tls: Option<MakeRustlsConnect>,
    pub(super) runtime: Handle,
}

impl Connection {
    pub(super) fn new(client: Client, canceller: Canceller) -> Self {
        Self { client, statements: Mutex::default(), open: false.into(), canceller }
    }

    /// Stops what runs here, without waiting, and closes the connection.
    ///
    /// The server drops a request to cancel that comes before the statement has begun. So requests are sent until the
    /// connection answers again.
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
                    // An answer, an error or a lost connection: in each case nothing runs any more.
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

    pub(super) async fn execute(&self, sql: &Sql, params: &[Value]) -> Result<u64, Error> {
        let statement = self.prepare(sql, params).await?;
        let params: Vec<Param<'_>> = params.iter().map(Param).collect();
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
        self.client.execute(&statement, &params).await.map_err(|error| self.failed(error, sql))
    }

    pub(super) async fn query(&self, sql: &Sql, params: &[Value]) -> Result<Vec<tokio_postgres::Row>, Error> {
        let statement = self.prepare(sql, params).await?;
        let params: Vec<Param<'_>> = params.iter().map(Param).collect();
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
        self.client.query(&statement, &params).await.map_err(|error| self.failed(error, sql))
    }

    /// Sends a query whose rows are taken one by one, so that an answer of any size is never in memory as a whole.
    pub(super) async fn stream(&self, sql: &Sql, params: &[Value]) -> Result<RowStream, Error> {
        let statement = self.prepare(sql, params).await?;
        self.client.query_raw(&statement, params.iter().map(Param)).await.map_err(|error| self.failed(error, sql))
    }

    async fn prepare(&self, sql: &Sql, params: &[Value]) -> Result<Statement, Error> {
        tracing::trace!(target: crate::STATEMENT_LOG, "{sql}");
        let known = self.statements.lock().get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let text = to_postgres(sql.as_str());
                let prepared = self.client.prepare(&text).await.map_err(|error| classify(error, sql.as_str()))?;
                if sql.is_worth_keeping() {
                    let mut statements = self.statements.lock();
                    if statements.len() >= STATEMENTS {
                        statements.clear();
                    }
                    statements.insert(sql.clone(), prepared.clone());
                }
                prepared
            }
        };
        let expected = statement.params().len();
        if expected != params.len() {
            let mismatch = format!("{} values for {expected} placeholders", params.len());
            return Err(Error::other(sql.to_string(), mismatch));
        }
        Ok(statement)
    }

    /// Forgets a statement whose plan no longer fits the tables, so that the next call prepares it anew.
    fn failed(&self, error: tokio_postgres::Error, sql: &Sql) -> Error {
        if super::error::is_stale_plan(&error) {
            self.statements.lock().remove(sql);
        }
        classify(error, sql.as_str())
    }
}
