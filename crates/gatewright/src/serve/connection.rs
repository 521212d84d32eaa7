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
use gatewright_http::Problem;
use gatewright_http::layers::{BodyLimit, Deadline, EnvelopeLayer};
use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::Draining;
use super::event_stream::{EventStream, Form};
use super::pace::Paced;

/// How long a client may take over the head of a request, and a connection may stay idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest head of a request in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// The most that a connection buffers each way, in bytes.
const MAX_BUFFER: usize = 128 * 1024;

/// State that all connections share.
pub(super) struct Connections {
    http: http1::Builder,
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
        let ambient = Ambient::system();
        Self { http, router, misaddressed: misaddressed(), ambient, slow_reader, draining, finish }
    }

    /// Serves one connection to its end.
    pub(super) fn serve(&self, stream: TcpStream, peer: SocketAddr) -> impl Future<Output = ()> + Send + use<> {
        // On the heap, and dropped as soon as an event stream takes over the connection.
        let requests = Box::pin(self.requests(stream, peer));
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
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<Option<TakenOver>, BoxError>> + Send + use<> {
        let Self { http, router, misaddressed, ambient, slow_reader, draining, finish } = self;
        let (http, ambient, slow_reader, finish) = (http.clone(), ambient.clone(), *slow_reader, finish.clone());
        let (router, misaddressed, draining) = (router.clone(), misaddressed.clone(), draining.clone());
        let (taking, waits) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let take = taking.clone();
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
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
            // Answers are written whole; waiting for more to send would only delay them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY could not be set");
            }
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

/// A connection that an event stream has.
struct TakenOver {
    connection: Paced<TcpStream>,
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
