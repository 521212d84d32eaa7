use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::{Canceller, Connection, Pooled, TIMEOUT};
use super::error::classify;
use super::tls;
use super::types::Types;
use super::url::{Parsed, parse};
use crate::{Error, OpenError, Options};

/// Has single statements read by an index where there is one. The server plans a prepared statement for tables as large as they are
/// then: it would read all of a table that was empty at that time, until statistics are collected. Where no index serves, the
/// server reads the table nevertheless.
/// `local`: in one transaction.
pub(super) fn by_index(local: bool) -> String {
    off("enable_seqscan", local)
}

/// Turns a setting off, for the transaction or the session, where the server has it.
fn off(setting: &str, local: bool) -> String {
    format!("SELECT set_config('{setting}', 'off', {local}) WHERE current_setting('{setting}', true) IS NOT NULL")
}

/// Makes connections to one server.
#[derive(Clone)]
pub(super) struct Connector(Arc<Target>, Purpose);

/// What a connection is for. It decides the settings of its session.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// Lists, and whatever else has a connection for a while.
    Any,
    /// Single statements of many callers. They fail with [`Error::Locked`] if they would wait longer for a lock; zero: they wait.
    /// With a time, the server stops a statement that takes longer.
    Single { lock_timeout: Duration, statement_timeout: Option<Duration> },
    /// Transactions that begin with `BEGIN READ WRITE`. Outside of them, nothing is written.
    Transactions,
}

struct Target {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    location: String,
    /// The runtime for tasks that move bytes: the transactions' own threads may be busy or end earlier.
    runtime: Handle,
    statement_timeout: Duration,
    types: Option<Arc<Types>>,
    /// Whether connections end because the database is closed.
    closing: AtomicBool,
}

impl Connector {
    /// With `types`, the URL leads to a pooler in transaction mode.
    pub(super) fn new(url: &str, options: &Options, types: Option<Arc<Types>>) -> Result<Self, OpenError> {
        let Parsed { mut config, protection, root, .. } = parse(url)?;
        config.connect_timeout(TIMEOUT).keepalives_idle(Duration::from_mins(1));
        if config.get_application_name().is_none() {
            config.application_name("gatewright");
        }
        let location = location(&config);
        let unusable = |reason| OpenError::Unreachable { location: location.clone(), reason };
        let (mode, tls) = tls::of(protection, root.as_deref()).map_err(unusable)?;
        config.ssl_mode(mode);
        let (runtime, statement_timeout) = (Handle::current(), options.statement_timeout);
        let target =
            Target { config, tls, location, runtime, statement_timeout, types, closing: AtomicBool::new(false) };
        Ok(Self(Arc::new(target), Purpose::Any))
    }

    /// The same, but connections write only in transactions that begin with `BEGIN READ WRITE`. If a BEGIN fails, a
    /// statement that was sent right after it cannot write.
    pub(super) fn for_transactions(self) -> Self {
        Self(self.0, Purpose::Transactions)
    }

    /// The same with connections for single statements. With a limit, those fail with [`Error::Locked`] if they would wait longer for
    /// a lock. Behind a pooler, which keeps no settings, they wait.
    pub(super) fn for_single_statements(self, lock_timeout: Duration) -> Self {
        Self(self.0, Purpose::Single { lock_timeout, statement_timeout: None })
    }

    /// The same with connections for single statements, which fail with [`Error::Deadline`] after `limit`. Behind a pooler, which
    /// keeps no settings, they do not.
    pub(super) fn for_short_statements(self, limit: Duration) -> Self {
        let statement_timeout = Some(limit.min(self.0.statement_timeout));
        Self(self.0, Purpose::Single { lock_timeout: Duration::ZERO, statement_timeout })
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    /// Where this leads: host and database, without the password.
    pub(super) fn location(&self) -> &str {
        &self.0.location
    }

    /// From now on the end of a connection is nothing to log.
    pub(super) fn close(&self) {
        self.0.closing.store(true, Ordering::Relaxed);
    }

    pub(super) async fn connect(&self) -> Result<Connection, Error> {
        let lost = |error| refused(error, "connect");
        let client = match &self.0.tls {
            Some(tls) => {
                let (client, connection) = self.0.config.connect(tls.clone()).await.map_err(lost)?;
                check_encoding(&connection)?;
                self.0.runtime.spawn(log_end(self.0.clone(), connection));
                client
            }
            None => {
                let (client, connection) = self.0.config.connect(NoTls).await.map_err(lost)?;
                check_encoding(&connection)?;
                self.0.runtime.spawn(log_end(self.0.clone(), connection));
                client
            }
        };
        let limits = |scope| {
            let statement = self.0.statement_timeout.as_millis();
            // The server compiles a statement that it estimates to be large, which takes most of a second: conditions over
            // several relations look large, and read a few rows.
            let compiled = off("jit", scope == "LOCAL");
            format!(
                "SET {scope} statement_timeout = {statement}; SET {scope} idle_in_transaction_session_timeout = 60000; \
                 SET {scope} client_min_messages = warning; {compiled}"
            )
        };
        let (settings, pooled) = match &self.0.types {
            None => {
                let own = match self.1 {
                    Purpose::Any => String::new(),
                    Purpose::Single { lock_timeout, statement_timeout } => {
                        let time = |name, limit: Duration| format!("SET {name} = {}; ", limit.as_millis());
                        // Last: it applies to the statements that follow.
                        let limit = statement_timeout.map(|limit| time("statement_timeout", limit)).unwrap_or_default();
                        format!("{}{}; {limit}", time("lock_timeout", lock_timeout), by_index(false))
                    }
                    Purpose::Transactions => "SET default_transaction_read_only = on".to_owned(),
                };
                let read_only = "SET default_transaction_read_only = off";
                (format!("SET TimeZone = 'UTC'; {read_only}; {}; {own}", limits("SESSION")), None)
            }
            // A pooler restores the time zone for each of its clients. Any other setting would stay for the next client.
            Some(types) => {
                let pooled = Pooled { types: types.clone(), limits: limits("LOCAL") };
                ("SET TimeZone = 'UTC'".to_owned(), Some(pooled))
            }
        };
        client.batch_execute(&settings).await.map_err(lost)?;
        let (token, runtime) = (client.cancel_token(), self.0.runtime.clone());
        Ok(Connection::new(client, Canceller { token, tls: self.0.tls.clone(), runtime }, pooled))
    }

    /// A connection that sends its notifications to `messages`, after `statement` has subscribed to them.
    pub(super) async fn listen(
        &self,
        messages: mpsc::Sender<Result<String, Error>>,
        statement: &str,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        let lost = |error| refused(error, "listen");
        no_answer(async {
            let (client, task) = match &self.0.tls {
                Some(tls) => {
                    let (client, connection) = self.0.config.connect(tls.clone()).await.map_err(lost)?;
                    (client, self.0.runtime.spawn(forward(connection, messages)))
                }
                None => {
                    let (client, connection) = self.0.config.connect(NoTls).await.map_err(lost)?;
                    (client, self.0.runtime.spawn(forward(connection, messages)))
                }
            };
            client.batch_execute(statement).await.map_err(lost)?;
            Ok((client, task))
        })
        .await
    }
}

/// Checks what the server said about the database's encoding when it accepted the connection.
fn check_encoding<S, T>(connection: &tokio_postgres::Connection<S, T>) -> Result<(), Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    match connection.parameter("server_encoding") {
        Some("UTF8") | None => Ok(()),
        Some(other) => Err(Error::Encoding(other.to_owned())),
    }
}

async fn no_answer<T>(made: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let lost = |_| Error::ConnectionLost("the server did not answer in time".to_owned());
    tokio::time::timeout(TIMEOUT, made).await.map_err(lost)?
}

/// The error of a connection that did not come about, with what to do about its TLS.
fn refused(error: tokio_postgres::Error, context: &str) -> Error {
    let hint = tls::hint(&error).unwrap_or_default();
    match classify(error, context) {
        Error::ConnectionLost(reason) => Error::ConnectionLost(format!("{reason}{hint}")),
        other => other,
    }
}

/// Moves a connection's bytes and forwards its notifications, until it ends or the receiver is dropped.
async fn forward<S, T>(mut connection: tokio_postgres::Connection<S, T>, sender: mpsc::Sender<Result<String, Error>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        let message = match message {
            Ok(AsyncMessage::Notification(notification)) => Ok(notification.payload().to_owned()),
            Ok(_) => continue,
            Err(error) => Err(Error::ConnectionLost(error.to_string())),
        };
        if sender.send(message).await.is_err() {
            return;
        }
    }
}

async fn log_end(target: Arc<Target>, connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await
        && !target.closing.load(Ordering::Relaxed)
    {
        tracing::warn!(error = %error, "a connection to Postgres ended");
    }
}

impl Manager for Connector {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        self.connect().await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        if connection.is_usable() { Ok(()) } else { Err(RecycleError::message("the connection is not usable")) }
    }
}

fn location(config: &Config) -> String {
    let hosts: Vec<_> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    let ports: Vec<_> = config.get_ports().iter().map(ToString::to_string).collect();
    format!("postgres {}:{}/{}", hosts.join(","), ports.join(","), config.get_dbname().unwrap_or("postgres"))
}
