//! A few connections that all callers share for single statements. The protocol is pipelined, so that statements do not
//! wait for each other's results; more connections make it slower, not faster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::connect::Connector;
use super::connection::{Connection, TIMEOUT};
use crate::{Error, OpenError, Sql, Value};

pub(super) struct Lanes {
    lanes: Vec<Arc<Lane>>,
    next: AtomicUsize,
}

/// One shared connection, opened when first needed and again after a failure.
pub(crate) struct Lane {
    connector: Connector,
    current: RwLock<Option<Arc<Connection>>>,
    connecting: Mutex<()>,
}

impl Lanes {
    pub(super) fn new(connector: &Connector, count: usize) -> Self {
        let lane = || Arc::new(Lane::new(connector.clone()));
        Self { lanes: (0..count).map(|_| lane()).collect(), next: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn pick(&self) -> Arc<Lane> {
        self.lanes[self.next_place()].clone()
    }

    /// The place of the connection whose turn it is.
    pub(super) fn next_place(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.lanes.len()
    }

    pub(super) fn at(&self, place: usize) -> &Lane {
        &self.lanes[place]
    }

    pub(super) async fn try_one(&self) -> Result<(), OpenError> {
        let lane = &self.lanes[0];
        lane.connection().await.map(|_| ()).map_err(|error| lane.unusable(error))
    }
}

/// Refuses a pooler in transaction mode that the configuration does not declare: session settings would affect the pooler's other
/// clients, and would be missing for the next statement.
///
/// It is detected if one session of the server serves two connections.
pub(super) async fn refuse_pooler(one: &Lanes, other: &Lanes) -> Result<(), OpenError> {
    let lane = &one.lanes[0];
    let is_shared = async {
        let (one, other) = (lane.connection().await?, other.lanes[0].connection().await?);
        let outside = one.simple("SELECT pg_backend_pid()").await?;
        let inside = other.simple("BEGIN; SELECT pg_backend_pid()").await?;
        // The first connection cannot get a lock that the second one holds until its transaction ends.
        let is_shared = outside == inside || one.simple("SELECT pg_backend_pid()").await? != outside;
        other.batch("COMMIT").await?;
        Ok(is_shared)
    };
    if !is_shared.await.map_err(|error| lane.unusable(error))? {
        return Ok(());
    }
    let reason =
        "a pooler in transaction mode answers there; set `database.direct_url` to the address of Postgres itself";
    Err(OpenError::Unreachable { location: lane.connector.location().to_owned(), reason: reason.to_owned() })
}

impl Lane {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, current: RwLock::default(), connecting: Mutex::default() }
    }

    pub(super) fn unusable(&self, error: Error) -> OpenError {
        let reason = match error {
            Error::Encoding(encoding) => {
                return OpenError::Encoding { location: self.connector.location().to_owned(), encoding };
            }
            Error::ConnectionLost(reason) => reason,
            Error::Other { source, .. } => super::error::with_hint(&*source),
            other => other.to_string(),
        };
        OpenError::Unreachable { location: self.connector.location().to_owned(), reason }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn execute<'a>(&'a self, sql: &'a Sql, params: &'a [Value]) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let connection = self.connection().await?;
            match connection.execute(sql, params).await {
                Err(error) if super::error::is_retryable(&error) => connection.execute(sql, params).await,
                result => result,
            }
        })
    }

    pub(super) fn query<'a>(
        &'a self,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<Vec<tokio_postgres::Row>, Error>> {
        Box::pin(async move {
            let connection = self.connection().await?;
            match connection.query(sql, params).await {
                Err(error) if super::error::is_retryable(&error) => connection.query(sql, params).await,
                // A read that lost its connection changed nothing and may be sent again.
                Err(Error::ConnectionLost(_)) if sql.verb() == "SELECT" => {
                    self.connection().await?.query(sql, params).await
                }
                result => result,
            }
        })
    }

    /// Like [`query`](Self::query), but reads the rows one by one. A query that fails after the first row is not
    /// repeated.
    pub(super) fn stream<'a>(
        &'a self,
        sql: &'a Sql,
        params: &'a [Value],
    ) -> BoxFuture<'a, Result<tokio_postgres::RowStream, Error>> {
        Box::pin(async move {
            let connection = self.connection().await?;
            match connection.stream(sql, params).await {
                Err(error) if super::error::is_retryable(&error) => connection.stream(sql, params).await,
                Err(Error::ConnectionLost(_)) if sql.verb() == "SELECT" => {
                    self.connection().await?.stream(sql, params).await
                }
                result => result,
            }
        })
    }

    pub(super) async fn connection(&self) -> Result<Arc<Connection>, Error> {
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        let made = tokio::time::timeout(TIMEOUT, self.connector.connect()).await;
        let connection =
            Arc::new(made.map_err(|_| Error::ConnectionLost("the server did not answer in time".to_owned()))??);
        *self.current.write() = Some(connection.clone());
        Ok(connection)
    }

    /// The connection, if it is open.
    pub(super) fn alive(&self) -> Option<Arc<Connection>> {
        self.current.read().as_ref().filter(|connection| !connection.is_closed()).cloned()
    }
}
