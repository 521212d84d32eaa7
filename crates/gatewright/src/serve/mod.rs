//! The server's loop: connections in, requests to the router, and an orderly end.
//!
//! It serves HTTP/1.1 without TLS, for a proxy in front of it. [`connection`] serves one connection and sets its
//! limits, [`event_stream`] takes it over for a stream of events, [`pace`] disconnects clients that read too slowly,
//! [`addresses`] counts the connections of each address, [`refusal`] answers connections over a limit, and [`drain`] is
//! the state of a stop.

mod addresses;
mod connection;
mod drain;
mod event_stream;
mod pace;
mod refusal;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use gatewright_http::TrustedProxies;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use addresses::Addresses;
use connection::Connections;
pub(crate) use drain::Draining;
use refusal::Refusals;

/// How long to wait before accepting again when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The inputs of a server besides its listener.
pub(crate) struct Server {
    pub(crate) router: Router,
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
    pub(crate) async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>, closing: impl FnOnce()) {
        let (finish, abort) = (CancellationToken::new(), CancellationToken::new());
        let connections = Connections::new(self.router, self.slow_reader, self.draining.clone(), finish.clone());
        let mut acceptor = Acceptor {
            connections,
            abort: abort.clone(),
            open: TaskTracker::new(),
            refusals: Refusals::default(),
            addresses: Addresses::new(self.max_connections_per_address, self.trusted_proxies),
            max_connections: self.max_connections,
            is_crowded: false,
            is_failing: false,
        };
        acceptor.accept_until(&listener, shutdown).await;
        if !self.drain.is_zero() {
            self.draining.begin();
            tracing::info!(seconds = self.drain.as_secs(), "draining: answers close their connections, /readyz is 503");
            acceptor.accept_until(&listener, tokio::time::sleep(self.drain)).await;
        }
        let open = acceptor.stop_listening(listener);
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
    connections: Connections,
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
    async fn accept_until(&mut self, listener: &TcpListener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
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

    /// Takes the connections that the system has set up already, since closing the listener would reset them.
    fn stop_listening(mut self, listener: TcpListener) -> TaskTracker {
        // The runtime may not know the newest connections yet, so the system is queried. The socket does not block.
        if let Ok(listener) = listener.into_std() {
            while let Ok((stream, peer)) = listener.accept() {
                let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                if let Ok(stream) = stream {
                    self.admit(stream, peer);
                }
            }
        }
        self.open
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
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
            self.refusals.refuse(stream);
            return;
        }
        self.is_crowded &= self.open.len() >= self.max_connections / 2;
        let Some(seat) = self.addresses.enter(peer.ip()) else {
            tracing::debug!(%peer, "connection limit of this address reached; refused");
            self.refusals.refuse(stream);
            return;
        };
        let connection = self.connections.serve(stream, peer);
        let abort = self.abort.clone();
        self.open.spawn(async move {
            abort.run_until_cancelled(connection).await;
            drop(seat);
        });
    }
}

/// Whether accepting failed because this one client has disconnected again.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
