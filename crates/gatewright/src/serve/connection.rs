use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::{BoxError, Router};
use futures_util::FutureExt;
use gatewright_base::Ambient;
use gatewright_http::layers::{BodyLimit, Deadline, EnvelopeLayer};
use gatewright_http::{Problem, Scheme};
use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Uri, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::Draining;
use super::event_stream::{EventStream, Form};
use super::http2::Exchanges;
use super::pace::Paced;
use super::transport::Transport;

/// How long a client may take over the head of a request, and a connection may stay idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest head of a request in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// The most that a connection buffers each way, in bytes.
const MAX_BUFFER: usize = 128 * 1024;
/// What a client may send of a body before it is read, with HTTP/2: for each request, and for all of a connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 128 * 1024;
/// The most requests in progress on a connection with HTTP/2.
const MAX_STREAMS: u32 = 100;
/// How long a connection with HTTP/2 may stay idle. Then it has as long again to end.
const IDLE: Duration = Duration::from_secs(30);
/// How often a connection with HTTP/2 is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// State that all connections share.
pub(super) struct Connections {
    http: http1::Builder,
    http_2: http2::Builder<TokioExecutor>,
    router: Router,
    /// Answers requests that do not name one host.
    misaddressed: Router,
    ambient: Ambient,
    slow_reader: Duration,
    draining: Draining,
    /// Ends connections after the request that they are serving.
    finish: CancellationToken,
}

impl Connections {
    pub(super) fn new(router: Router, slow_reader: Duration, draining: Draining, finish: CancellationToken) -> Self {
        let mut http = http1::Builder::new();
        // At most 100 headers is hyper's default; setting it would allocate them again for each request.
        http.timer(TokioTimer::new());
        http.header_read_timeout(HEAD_TIMEOUT).max_header_size(MAX_HEAD).max_buf_size(MAX_BUFFER);
        let mut http_2 = http2::Builder::new(TokioExecutor::new());
        http_2.timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
        http_2.max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX)).max_send_buf_size(MAX_BUFFER);
        http_2.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        http_2.keep_alive_interval(HEAD_TIMEOUT).keep_alive_timeout(HEAD_TIMEOUT);
        let ambient = Ambient::system();
        Self { http, http_2, router, misaddressed: misaddressed(), ambient, slow_reader, draining, finish }
    }

    /// Serves one connection to its end.
    pub(super) fn serve(
        &self,
        stream: Transport,
        peer: SocketAddr,
        scheme: Option<Scheme>,
    ) -> impl Future<Output = ()> + Send + use<> {
        // On the heap, and dropped as soon as an event stream takes over the connection.
        let requests = Box::pin(self.requests(stream, peer, scheme));
        async move {
            let ended = requests.await;
            let ended = match ended {
                Ok(Some(TakenOver { connection, stream, hears })) => {
                    stream.send(connection, hears).await.map_err(Into::into)
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                // A client that went away or broke the protocol; nothing an operator could act on.
                tracing::debug!(%error, %peer, "the connection ended early");
            }
        }
    }

    /// Serves requests until the connection ends, or until the answer to one takes it over.
    fn requests(
        &self,
        stream: Transport,
        peer: SocketAddr,
        scheme: Option<Scheme>,
    ) -> impl Future<Output = Result<Option<TakenOver>, BoxError>> + Send + use<> {
        let Self { http, router, misaddressed, ambient, slow_reader, draining, finish, .. } = self;
        let (http, ambient, slow_reader, finish) = (http.clone(), ambient.clone(), *slow_reader, finish.clone());
        let (router, misaddressed, draining) = (router.clone(), misaddressed.clone(), draining.clone());
        let (taking, waits) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let take = taking.clone();
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            scheme.map(|scheme| request.extensions_mut().insert(scheme));
            let form = Form::of(&request);
            let mut router = if names_one_host(&request) { router.clone() } else { misaddressed.clone() };
            let answer = router.call(request.map(Body::new));
            let (draining, ambient, take) = (draining.clone(), ambient.clone(), take.clone());
            async move {
                let mut response = answer.await?;
                if EventStream::is_in(form, &response) {
                    *take.lock() = Some(EventStream::new(form, response, ambient.now()));
                    return std::future::pending().await;
                }
                if draining.has_begun() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        async move {
            let stream = Paced::new(stream, slow_reader, waits.clone());
            let mut connection = http.serve_connection(TokioIo::new(stream), service);
            let mut finishing = pin!(finish.cancelled().fuse());
            let taken = poll_fn(|context| {
                if finishing.as_mut().poll(context).is_ready() {
                    Pin::new(&mut connection).graceful_shutdown();
                }
                let ended = Pin::new(&mut connection).poll(context)?;
                // Answers to earlier requests go first.
                if ended.is_pending()
                    && !waits.load(Ordering::Relaxed)
                    && let Some(stream) = taking.lock().take()
                {
                    return Poll::Ready(Ok::<_, hyper::Error>(Some(stream)));
                }
                ended.map(|()| Ok(None))
            });
            let Some(stream) = taken.await? else { return Ok(None) };
            let parts = connection.into_parts();
            let connection = parts.io.into_inner().of_event_stream();
            Ok(Some(TakenOver { connection, stream, hears: parts.read_buf.is_empty() }))
        }
    }
}

impl Connections {
    /// Serves one connection with HTTP/2 and TLS to its end.
    pub(super) fn serve_http_2(&self, stream: Transport, peer: SocketAddr) -> impl Future<Output = ()> + Send + use<> {
        let Self { http_2, router, misaddressed, slow_reader, draining, finish, .. } = self;
        let (router, misaddressed, period) = (router.clone(), misaddressed.clone(), *slow_reader);
        let (draining, finish) = (draining.clone(), finish.clone());
        let exchanges = Arc::new(Exchanges::default());
        let begun = exchanges.clone();
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(Scheme::Https);
            let exchange = begun.begin();
            let is_addressed = name_host(&mut request) && names_one_host(&request);
            let mut router = if is_addressed { router.clone() } else { misaddressed.clone() };
            let answer = router.call(request.map(Body::new));
            async move { Ok::<_, std::convert::Infallible>(exchange.answer(answer.await?)) }
        });
        let stream = Paced::new(stream, period, Arc::default());
        let connection = http_2.serve_connection(TokioIo::new(stream), service);
        Box::pin(async move {
            let mut connection = pin!(connection);
            let (mut looking, start) = (tokio::time::interval(LOOK), Instant::now());
            let (mut last_look, mut ends_since) = (start, None);
            loop {
                tokio::select! {
                    ended = &mut connection => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, %peer, "the connection ended early");
                        }
                        return;
                    }
                    () = finish.cancelled(), if ends_since.is_none() => {}
                    _ = looking.tick() => {}
                }
                let quiet = exchanges.quiet_since(start).map(|since| since.elapsed());
                let is_idle = quiet.is_some_and(|quiet| quiet >= IDLE);
                if ends_since.is_none() && (is_idle || draining.has_begun() || finish.is_cancelled()) {
                    ends_since = Some(Instant::now());
                    connection.as_mut().graceful_shutdown();
                }
                if quiet.is_some() && ends_since.is_some_and(|since: Instant| since.elapsed() >= IDLE) {
                    return;
                }
                if last_look.elapsed() >= period {
                    last_look = Instant::now();
                    if exchanges.is_stalled(period) {
                        tracing::debug!(%peer, "the client reads an answer too slowly; its connection is closed");
                        return;
                    }
                }
            }
        })
    }
}

/// Gives a request the form that it has in HTTP/1.1: a `Host`, and a target without one. `false` if two hosts are named.
fn name_host<B>(request: &mut hyper::Request<B>) -> bool {
    let Some(authority) = request.uri().authority().cloned() else { return true };
    let Ok(host) = HeaderValue::from_str(authority.as_str()) else { return false };
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    match request.headers().get(HOST) {
        Some(named) => named == host,
        None => {
            request.headers_mut().insert(HOST, host);
            true
        }
    }
}

/// A connection that an event stream has.
struct TakenOver {
    connection: Paced<Transport>,
    stream: EventStream,
    /// The client has sent nothing since.
    hears: bool,
}

/// Answers requests that do not name one host, with the headers that every answer has.
fn misaddressed() -> Router {
    let refusal = async || Problem::bad_request("an HTTP/1.1 request names its host exactly once");
    let envelope = EnvelopeLayer::new(Ambient::system(), BodyLimit::new(usize::MAX), Deadline::new(HEAD_TIMEOUT));
    Router::new().fallback(refusal).layer(envelope)
}

/// Whether a request has one `Host` (RFC 9112, section 3.2). Of two, a proxy in front may have routed by the other.
fn names_one_host<B>(request: &hyper::Request<B>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() == Version::HTTP_10)
}
