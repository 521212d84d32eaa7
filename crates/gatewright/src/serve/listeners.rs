//! The addresses and sockets that a server listens on.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use gatewright_http::UNIX_PEER;
use tokio::net::{TcpListener, TcpStream};

use super::tls::{self, LiveTls, TlsError};
use super::transport::Transport;
#[cfg(unix)]
use super::unix::UnixSocket;
use crate::Config;
use crate::config::Listen;

/// Open sockets on which a server accepts connections.
pub struct Listeners {
    sockets: Vec<Socket>,
    tls: Option<LiveTls>,
    /// The socket whose turn it is, so that a busy one does not keep out the others.
    next: usize,
}

enum Socket {
    Tcp(TcpListener, Kind),
    #[cfg(unix)]
    Unix(UnixSocket),
}

/// What is spoken on a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Tls,
    /// Plain, and every answer leads to HTTPS.
    Redirect,
}

/// A new connection.
pub(super) enum Accepted {
    Tcp(TcpStream, SocketAddr, Kind),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Accepted {
    /// The other end. All clients of Unix sockets are one.
    pub(super) fn peer(&self) -> SocketAddr {
        match self {
            Self::Tcp(_, peer, _) => *peer,
            #[cfg(unix)]
            Self::Unix(_) => SocketAddr::new(UNIX_PEER, 0),
        }
    }

    /// The connection, if it can be answered without a handshake.
    pub(super) fn plain(self) -> Option<Transport> {
        match self {
            Self::Tcp(_, _, Kind::Tls) => None,
            Self::Tcp(stream, ..) => Some(Transport::Tcp(stream)),
            #[cfg(unix)]
            Self::Unix(stream) => Some(Transport::Unix(stream)),
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// An address cannot be used.
    #[error("cannot listen on {at}; choose another address with --listen or `{key}`")]
    Address {
        /// The address.
        at: String,
        /// Its setting.
        key: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A certificate cannot be used.
    #[error("{0}")]
    Tls(String),
}

impl From<TlsError> for ListenError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error.to_string())
    }
}

impl Listeners {
    /// Opens everything that `[server]` names. With `[server.tls]`, TCP connections are encrypted.
    pub async fn bind(config: &Config) -> Result<Self, ListenError> {
        let server = &config.server;
        let tls = server.tls.as_ref().map(tls::load).transpose()?.map(LiveTls::new);
        let kind = if tls.is_some() { Kind::Tls } else { Kind::Plain };
        let mut sockets = Vec::new();
        let failed = |at: String, key: &'static str| move |source| ListenError::Address { at, key, source };
        for listen in &server.listen {
            let error = failed(listen.to_string(), "server.listen");
            sockets.push(match listen {
                Listen::Tcp(address) => Socket::Tcp(TcpListener::bind(address).await.map_err(error)?, kind),
                #[cfg(unix)]
                Listen::Unix(path) => Socket::Unix(UnixSocket::bind(path).map_err(error)?),
                #[cfg(not(unix))]
                Listen::Unix(_) => return Err(error(io::ErrorKind::Unsupported.into())),
            });
        }
        if let Some(address) = server.tls.as_ref().and_then(|tls| tls.redirect_http) {
            let error = failed(address.to_string(), "server.tls.redirect_http");
            sockets.push(Socket::Tcp(TcpListener::bind(address).await.map_err(error)?, Kind::Redirect));
        }
        Ok(Self { sockets, tls, next: 0 })
    }

    /// The real addresses of `server.listen`: a configured port may be 0.
    pub fn addresses(&self) -> io::Result<Vec<Listen>> {
        let mut addresses = Vec::new();
        for socket in &self.sockets {
            match socket {
                Socket::Tcp(_, Kind::Redirect) => {}
                Socket::Tcp(listener, _) => addresses.push(Listen::Tcp(listener.local_addr()?)),
                #[cfg(unix)]
                Socket::Unix(socket) => addresses.push(Listen::Unix(socket.path().to_owned())),
            }
        }
        Ok(addresses)
    }

    pub(crate) fn tls(&self) -> Option<&LiveTls> {
        self.tls.as_ref()
    }

    /// The next connection of any socket.
    pub(super) async fn accept(&mut self) -> io::Result<Accepted> {
        poll_fn(|context| {
            let count = self.sockets.len();
            for step in 0..count {
                let at = (self.next + step) % count;
                if let Poll::Ready(accepted) = self.sockets[at].poll_accept(context) {
                    self.next = (at + 1) % count;
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Closes all sockets, and returns the connections that the system has set up already, since closing would reset them.
    pub(super) fn close(self) -> Vec<Accepted> {
        self.sockets.into_iter().flat_map(Socket::close).collect()
    }
}

impl From<TcpListener> for Listeners {
    fn from(listener: TcpListener) -> Self {
        Self { sockets: vec![Socket::Tcp(listener, Kind::Plain)], tls: None, next: 0 }
    }
}

impl Socket {
    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            Self::Tcp(listener, kind) => {
                listener.poll_accept(context).map_ok(|(stream, peer)| Accepted::Tcp(stream, peer, *kind))
            }
            #[cfg(unix)]
            Self::Unix(socket) => socket.poll_accept(context).map_ok(Accepted::Unix),
        }
    }

    /// The runtime may not know the newest connections yet, so the system is queried. The socket does not block.
    fn close(self) -> Vec<Accepted> {
        let mut rest = Vec::new();
        match self {
            Self::Tcp(listener, kind) => {
                let Ok(listener) = listener.into_std() else { return rest };
                while let Ok((stream, peer)) = listener.accept() {
                    let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                    rest.extend(stream.ok().map(|stream| Accepted::Tcp(stream, peer, kind)));
                }
            }
            #[cfg(unix)]
            Self::Unix(socket) => rest.extend(socket.close().into_iter().map(Accepted::Unix)),
        }
        rest
    }
}

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listeners").field("sockets", &self.sockets.len()).finish_non_exhaustive()
    }
}
