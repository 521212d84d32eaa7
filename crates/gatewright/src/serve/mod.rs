//! The server's loop: connections in, requests to the router, and an orderly end.
//!
//! [`listeners`] are the sockets. [`connection`] serves one connection with HTTP/1.1 and sets its limits, [`http2`] has those of
//! HTTP/2, [`tls`] the handshakes, [`transport`] the bytes. [`event_stream`] takes a connection over for a stream of events,
//! [`pace`] disconnects clients that read too slowly, [`addresses`] counts the connections of each address, [`refusal`] answers
//! connections over a limit, [`redirect`] leads to HTTPS, and [`drain`] is the state of a stop.

mod addresses;
mod connection;
mod drain;
mod event_stream;
mod http2;
mod listeners;
mod pace;
mod redirect;
mod refusal;
mod tls;
mod transport;
#[cfg(unix)]
mod unix;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use gatewright_http::{Scheme, TrustedProxies};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use addresses::Addresses;
use connection::Connections;
pub(crate) use drain::Draining;
use listeners::{Accepted, Kind};
pub use listeners::{ListenError, Listeners};
use refusal::Refusals;
use tls::{Handshakes, shake};
pub(crate) use tls::{LiveTls, load as load_tls};
use transport::Transport;

/// How long to wait before accepting again when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The inputs of a server besides its listener.
pub(crate) struct Server {
    pub(crate) router: Router,
    /// Where plain HTTP leads if HTTPS is wanted.
    pub(crate) public_url: Url,
    /// The most connections at a time; further ones get 503.
    pub(crate) max_connections: usize,
    /// The most connections of one address; absent, 1,000, and any number from loopback addresses.
    pub(crate) max_connections_per_address: Option<usize>,
    /// Their connections belong to many clients.
    pub(crate) trusted_proxies: TrustedProxies,
    /// How long a client may delay an answer; see [`pace`].
    pub(crate) slow_reader: Duration,
    /// Set when the stop begins.
    pub(crate) draining: Draining,
    /// How long the server still answers after a stop was requested, each time with `Connection: close`.
    pub(crate) drain: Duration,
    /// How long requests may take to finish after that.
    pub(crate) grace: Duration,
}

impl Server {
    /// Serves until `shutdown` resolves, then drains, stops listening, calls `closing`, lets requests finish and closes
    /// what is left.
    pub(crate) async fn run(
        self,
        mut listeners: Listeners,
        shutdown: impl Future<Output = ()>,
        closing: impl FnOnce(),
    ) {
        let (finish, abort) = (CancellationToken::new(), CancellationToken::new());
        let connections =
            |router| Arc::new(Connections::new(router, self.slow_reader, self.draining.clone(), finish.clone()));
        let mut acceptor = Acceptor {
            redirecting: connections(redirect::to(&self.public_url)),
            connections: connections(self.router),
            tls: listeners.tls().cloned(),
            handshakes: Handshakes::new(self.max_connections, self.trusted_proxies.clone()),
            abort: abort.clone(),
            open: TaskTracker::new(),
            refusals: Refusals::default(),
            addresses: Addresses::new(self.max_connections_per_address, self.trusted_proxies),
            max_connections: self.max_connections,
            is_crowded: false,
            is_failing: false,
        };
        acceptor.accept_until(&mut listeners, shutdown).await;
        if !self.drain.is_zero() {
            self.draining.begin();
            tracing::info!(seconds = self.drain.as_secs(), "draining: answers close their connections, /readyz is 503");
            acceptor.accept_until(&mut listeners, tokio::time::sleep(self.drain)).await;
        }
        let open = acceptor.stop_listening(listeners);
        closing();
        finish.cancel();
        open.close();
        if tokio::time::timeout(self.grace, open.wait()).await.is_err() {
            tracing::warn!(connections = open.len(), "cutting connections that did not finish in time");
            abort.cancel();
            open.wait().await;
        }
    }
}

/// Accepts connections and passes each to a separate task.
struct Acceptor {
    connections: Arc<Connections>,
    /// Answers plain HTTP where HTTPS is wanted.
    redirecting: Arc<Connections>,
    tls: Option<LiveTls>,
    handshakes: Handshakes,
    abort: CancellationToken,
    open: TaskTracker,
    refusals: Refusals,
    addresses: Addresses,
    max_connections: usize,
    /// The connection limit was reached and logged.
    is_crowded: bool,
    /// Accepting fails and that was logged.
    is_failing: bool,
}

impl Acceptor {
    async fn accept_until(&mut self, listeners: &mut Listeners, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => return,
                accepted = listeners.accept() => accepted,
            };
            match accepted {
                Ok(accepted) => self.admit(accepted),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    // Logged once: a client that uses up all file descriptors must not fill the log as well.
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::error!(%error, "cannot accept connections");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Takes the connections that the system has set up already, since closing a listener would reset them.
    fn stop_listening(mut self, listeners: Listeners) -> TaskTracker {
        for accepted in listeners.close() {
            self.admit(accepted);
        }
        self.open
    }

    fn admit(&mut self, accepted: Accepted) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("connections are accepted again");
        }
        if self.open.len() >= self.max_connections {
            if !std::mem::replace(&mut self.is_crowded, true) {
                tracing::warn!(
                    max_connections = self.max_connections,
                    "connection limit reached; new connections are refused"
                );
            }
            return self.refuse(accepted);
        }
        self.is_crowded &= self.open.len() >= self.max_connections / 2;
        let peer = accepted.peer();
        // A Unix socket has one address for all its clients, which may be those of a proxy.
        let seat = match &accepted {
            Accepted::Tcp(..) => match self.addresses.enter(peer.ip()) {
                Some(seat) => Some(seat),
                None => {
                    tracing::debug!(%peer, "connection limit of this address reached; refused");
                    return self.refuse(accepted);
                }
            },
            #[cfg(unix)]
            Accepted::Unix(_) => None,
        };
        if let Accepted::Tcp(stream, ..) = &accepted
            && let Err(error) = stream.set_nodelay(true)
        {
            // Answers are written whole; waiting for more to send would only delay them.
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let abort = self.abort.clone();
        match (accepted, self.tls.clone()) {
            (Accepted::Tcp(stream, _, Kind::Tls), Some(tls)) => {
                let Some(turn) = self.handshakes.begin(peer.ip()) else {
                    return tracing::debug!(%peer, "too many TLS handshakes are in progress; closed");
                };
                let connections = self.connections.clone();
                let encrypted = Box::pin(async move {
                    let Some((stream, is_http_2)) = shake(tls, stream, turn).await else { return };
                    let stream = Transport::Tls(stream);
                    if is_http_2 {
                        connections.serve_http_2(stream, peer).await;
                    } else {
                        connections.serve(stream, peer, Some(Scheme::Https)).await;
                    }
                });
                self.spawn(encrypted, abort, seat);
            }
            (accepted, _) => {
                let is_redirect = matches!(accepted, Accepted::Tcp(_, _, Kind::Redirect));
                let connections = if is_redirect { &self.redirecting } else { &self.connections };
                if let Some(stream) = accepted.plain() {
                    self.spawn(connections.serve(stream, peer, None), abort, seat);
                }
            }
        }
    }

    fn spawn(
        &self,
        connection: impl Future<Output = ()> + Send + 'static,
        abort: CancellationToken,
        seat: Option<addresses::Seat>,
    ) {
        self.open.spawn(async move {
            abort.run_until_cancelled(connection).await;
            drop(seat);
        });
    }

    /// A connection with TLS is closed: without a handshake there is no answer.
    fn refuse(&self, accepted: Accepted) {
        if let Some(stream) = accepted.plain() {
            self.refusals.refuse(stream);
        }
    }
}

/// Whether accepting failed because this one client has disconnected again.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
