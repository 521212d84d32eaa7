use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::{Canceller, Connection, Pooled, TIMEOUT};
use super::error::classify;
use super::types::Types;
use crate::{Error, OpenError, Options};

/// Has single statements read by an index where there is one. The server plans a prepared statement for tables as large as they are
/// then: it would read all of a table that was empty at that time, until statistics are collected. Where no index serves, the
/// server reads the table nevertheless, and must not take that for work so large that it pays to compile the statement.
const BY_INDEX: &str = "SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN ('enable_seqscan', 'jit')";
/// The same for one transaction. It does not read all settings.
pub(super) const BY_INDEX_LOCALLY: &str = "SELECT set_config(name, 'off', true) FROM unnest(ARRAY['enable_seqscan', 'jit']) AS name \
    WHERE current_setting(name, true) IS NOT NULL";

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
        let Parsed { mut config, encrypted, root } = parse(url)?;
        config.connect_timeout(TIMEOUT).keepalives_idle(Duration::from_mins(1));
        if config.get_application_name().is_none() {
            config.application_name("gatewright");
        }
        let location = location(&config);
        config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        let tls = encrypted.then(|| tls(root.as_deref())).transpose();
        let tls = tls.map_err(|reason| OpenError::Unreachable { location: location.clone(), reason })?;
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
        let lost = |error| classify(error, "connect");
        let client = match &self.0.tls {
            Some(tls) => {
                let (client, connection) = self.0.config.connect(tls.clone()).await.map_err(lost)?;
                self.0.runtime.spawn(log_end(self.0.clone(), connection));
                client
            }
            None => {
                let (client, connection) = self.0.config.connect(NoTls).await.map_err(lost)?;
                self.0.runtime.spawn(log_end(self.0.clone(), connection));
                client
            }
        };
        let limits = |scope| {
            let statement = self.0.statement_timeout.as_millis();
            format!(
                "SET {scope} statement_timeout = {statement}; SET {scope} idle_in_transaction_session_timeout = 60000; \
                 SET {scope} client_min_messages = warning"
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
                        format!("{}{BY_INDEX}; {limit}", time("lock_timeout", lock_timeout))
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
        let lost = |error| classify(error, "listen");
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

async fn no_answer<T>(made: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let lost = |_| Error::ConnectionLost("the server did not answer in time".to_owned());
    tokio::time::timeout(TIMEOUT, made).await.map_err(lost)?
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

/// A URL that was read.
pub(super) struct Parsed {
    config: Config,
    encrypted: bool,
    root: Option<String>,
}

/// Reads a URL. No error contains a part of it: text that looks like a port, a database or a parameter may be part of a
/// password.
pub(super) fn parse(url: &str) -> Result<Parsed, OpenError> {
    if is_cut_short(url) {
        return Err(unreadable("its password seems to end early"));
    }
    let (url, mode, root) = split_tls(url)?;
    let config: Config =
        url.parse().map_err(|_: tokio_postgres::Error| unreadable("a part of it or a parameter is not known"))?;
    let encrypted = match mode.as_deref() {
        None => !config.get_hosts().iter().all(is_local),
        Some("disable") => false,
        Some("require" | "verify-ca" | "verify-full") => true,
        Some(_) => {
            return Err(OpenError::Url("its sslmode is not supported; use disable, require or verify-full".to_owned()));
        }
    };
    Ok(Parsed { config, encrypted, root })
}

fn unreadable(reason: &str) -> OpenError {
    OpenError::Url(format!(
        "{reason}; percent-encode special characters in the password (%40 for @, %2F for /, %23 for #)"
    ))
}

/// Whether the URL seems to contain a password with an unescaped reserved character. A slash, a question mark or a number
/// sign ends the host's part, and leaves the `@` in the text after it.
fn is_cut_short(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = before.split_once('/').map_or("", |(_, path)| path);
    let stray =
        |parameter: &str| !parameter.contains('=') || parameter.split('=').next().is_some_and(|key| key.contains('@'));
    fragment.is_some() || path.contains('@') || query.split('&').filter(|text| !text.is_empty()).any(stray)
}

/// Removes `sslmode` and `sslrootcert` from the URL: the driver supports fewer modes.
fn split_tls(url: &str) -> Result<(String, Option<String>, Option<String>), OpenError> {
    let mut parsed = url::Url::parse(url).map_err(|error| unreadable(&error.to_string()))?;
    let (mut mode, mut root, mut rest) = (None, None, Vec::new());
    for (key, value) in parsed.query_pairs() {
        match &*key {
            "sslmode" => mode = Some(value.into_owned()),
            "sslrootcert" => root = Some(value.into_owned()),
            _ => rest.push((key.into_owned(), value.into_owned())),
        }
    }
    parsed.set_query(None);
    if !rest.is_empty() {
        parsed.query_pairs_mut().extend_pairs(rest);
    }
    Ok((parsed.to_string(), mode, root))
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        Host::Unix(_) => true,
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

fn tls(root: Option<&str>) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = match root {
        None => builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth(),
        Some(path) => {
            let unreadable = |error: &dyn std::fmt::Display| format!("sslrootcert {path} cannot be read: {error}");
            let mut roots = rustls::RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_not_encoded_is_refused_and_no_part_of_it_is_shown() {
        for url in [
            "postgres://ada:canary/7@db.example/app",
            "postgres://ada:7/canary@db.example/app",
            "postgres://ada:7#canary@db.example/app",
            "postgres://ada:canary#7@db.example/app",
            "postgres://ada:7?canary@db.example/app",
            "postgres://ada:7?x=1&canary@db.example/app",
            "postgres://ada:canary@7/x@db.example/app",
            "postgres://ada:7@canary/x@db.example/app",
            "postgres://ada:7?canary=1@db.example/app",
            "postgres://ada:x@db.example:canary/app",
        ] {
            let Err(error) = parse(url) else { panic!("{url} was read") };
            let text = error.to_string();
            assert!(!text.contains("canary"), "{text}");
            assert!(text.contains("percent-encode"), "{text}");
        }
    }

    #[test]
    fn sound_urls_are_read() {
        for url in [
            "postgres://ada:p%40ss%2Fw%23rd@db.example:5433/app?sslmode=require&application_name=a%40b",
            "postgres://ada:p@ss@db.example/app",
            "postgresql://%2Fvar%2Frun%2Fpostgresql/app?user=ada&password=x",
            "postgres://127.0.0.1/app?application_name=a@b",
            "postgres:///app?host=/run/postgresql&user=a@b",
        ] {
            assert!(parse(url).is_ok(), "{url}: {:?}", parse(url).err());
        }
    }
}
