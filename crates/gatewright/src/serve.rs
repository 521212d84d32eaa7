//! The server's loop: connections in, requests to the router, and an orderly end.
//!
//! It speaks HTTP/1.1 without TLS, which is what a proxy in front of it speaks. Its limits are those that keep a
//! hostile client cheap: so long for a request's head, so many headers, so large a head.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use gatewright_base::Ambient;
use gatewright_http::Problem;
use gatewright_http::layers::{BodyLimit, Deadline, EnvelopeLayer};
use http::Version;
use http::header::HOST;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

/// How long a client may take over the head of a request, and a connection may stay idle between two.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The largest head of a request in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// The most that a connection buffers each way, in bytes.
const MAX_BUFFER: usize = 128 * 1024;
/// How long a client may take none of an answer's bytes.
const WRITE_PATIENCE: Duration = Duration::from_mins(1);
/// How long a connection over the cap may take to say what it wants, before it is told to come again.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(2);
/// How many connections over the cap are told so at a time; more are closed without a word. Each takes a file, of those
/// that whoever sets the cap leaves for the process's own use.
const REFUSALS: usize = 64;
/// What they are told.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\nx-content-type-options: nosniff\r\ncontent-length: 118\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"too many connections\",\"code\":\"unavailable\"}";
/// How long to wait before accepting again when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `shutdown` resolves. Then it accepts nothing more, calls `closing`, lets requests finish for
/// `drain` at most and closes what is left. Over `most` connections at a time, further ones are told to come again.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    most: usize,
    shutdown: impl Future<Output = ()>,
    closing: impl FnOnce(),
    drain: Duration,
) {
    let mut http = http1::Builder::new();
    // At most 100 headers is what it takes unasked; saying so would make it allocate them anew for each request.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_header_size(MAX_HEAD).max_buf_size(MAX_BUFFER);

    let misaddressed = misaddressed();
    let (connections, refusals) = (TaskTracker::new(), TaskTracker::new());
    let mut crowded = false;
    let (finish, abort) = (CancellationToken::new(), CancellationToken::new());
    let mut shutdown = pin!(shutdown);
    let mut refusing = false;
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                if std::mem::take(&mut refusing) {
                    tracing::info!("connections are accepted again");
                }
                if connections.len() >= most {
                    if !std::mem::replace(&mut crowded, true) {
                        tracing::warn!(most, "as many connections as there may be are open; more are refused");
                    }
                    if refusals.len() < REFUSALS {
                        refusals.spawn(refuse(stream));
                    }
                    continue;
                }
                crowded &= connections.len() >= most / 2;
                let (router, misaddressed) = (router.clone(), misaddressed.clone());
                let connection = connection(http.clone(), stream, peer, router, misaddressed, finish.clone());
                let abort = abort.clone();
                connections.spawn(async move { abort.run_until_cancelled(connection).await });
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                // Told once: whoever holds all file descriptors must not fill the log as well.
                if !std::mem::replace(&mut refusing, true) {
                    tracing::error!(%error, "cannot accept connections for the moment");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    closing();
    finish.cancel();
    connections.close();
    if tokio::time::timeout(drain, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "cutting connections that did not finish in time");
        abort.cancel();
        connections.wait().await;
    }
}

async fn connection(
    http: http1::Builder,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    misaddressed: Router,
    finish: CancellationToken,
) {
    // Answers are written whole; waiting for more to send would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let mut router = if names_one_host(&request) { router.clone() } else { misaddressed.clone() };
        router.call(request.map(Body::new))
    });
    // A client that stops reading keeps its answer in memory; one that takes nothing for so long is given up.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_PATIENCE));
    let mut connection = pin!(http.serve_connection(TokioIo::new(Box::pin(stream)), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = finish.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // A client that went away or spoke nonsense; nothing an operator could act on.
        tracing::debug!(%error, %peer, "the connection ended early");
    }
}

/// Answers before a request is read to its end, and lets the client finish its own part: an answer that meets unread bytes
/// may be lost.
async fn refuse(mut stream: TcpStream) {
    let answer = async {
        stream.write_all(REFUSAL).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // A client that is gone, or does not come to an end, has no more to be told.
    let _told_or_not = tokio::time::timeout(REFUSAL_PATIENCE, answer).await;
}

/// Answers requests that do not name one host, with the headers that every answer bears.
fn misaddressed() -> Router {
    let refusal = async || Problem::bad_request("an HTTP/1.1 request names its host exactly once");
    let envelope = EnvelopeLayer::new(Ambient::system(), BodyLimit(usize::MAX), Deadline::new(HEAD_PATIENCE));
    Router::new().fallback(refusal).layer(envelope)
}

/// Whether a request has one `Host` (RFC 9112, section 3.2). Of two, a proxy in front may have routed by the other.
fn names_one_host<B>(request: &hyper::Request<B>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() == Version::HTTP_10)
}

/// Whether accepting failed because that one client had gone again.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
