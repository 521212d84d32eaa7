use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use gatewright_base::Ambient;
use gatewright_http::Problem;
use gatewright_http::layers::{BodyLimit, Deadline, EnvelopeLayer};
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::Draining;
use super::pace::Paced;

/// How long a client may take over the head of a request, and a connection may stay idle between two.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The largest head of a request in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// The most that a connection buffers each way, in bytes.
const MAX_BUFFER: usize = 128 * 1024;

/// What all connections share.
pub(super) struct Connections {
    http: http1::Builder,
    router: Router,
    /// Answers requests that do not name one host.
    misaddressed: Router,
    slow_reader: Duration,
    draining: Draining,
    /// Ends connections after the request that they are serving.
    finish: CancellationToken,
}

impl Connections {
    pub(super) fn new(router: Router, slow_reader: Duration, draining: Draining, finish: CancellationToken) -> Self {
        let mut http = http1::Builder::new();
        // 100 headers at most is hyper's default; setting it would allocate them anew for each request.
        http.timer(TokioTimer::new());
        http.header_read_timeout(HEAD_PATIENCE).max_header_size(MAX_HEAD).max_buf_size(MAX_BUFFER);
        Self { http, router, misaddressed: misaddressed(), slow_reader, draining, finish }
    }

    /// Serves one connection to its end.
    pub(super) fn serve(&self, stream: TcpStream, peer: SocketAddr) -> impl Future<Output = ()> + Send + use<> {
        let Self { http, router, misaddressed, slow_reader, draining, finish } = self;
        let (http, slow_reader, finish) = (http.clone(), *slow_reader, finish.clone());
        let is_event_stream = Arc::new(AtomicBool::new(false));
        let streaming = is_event_stream.clone();
        let (router, misaddressed, draining) = (router.clone(), misaddressed.clone(), draining.clone());
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            let mut router = if names_one_host(&request) { router.clone() } else { misaddressed.clone() };
            let answer = router.call(request.map(Body::new));
            let (draining, streaming) = (draining.clone(), streaming.clone());
            async move {
                let mut response = answer.await?;
                streaming.store(is_event_stream_answer(&response), Ordering::Relaxed);
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
            let stream = Paced::new(stream, slow_reader, is_event_stream);
            let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = finish.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                // A client that went away or broke the protocol; nothing an operator could act on.
                tracing::debug!(%error, %peer, "the connection ended early");
            }
        }
    }
}

fn is_event_stream_answer(response: &axum::response::Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// Answers requests that do not name one host, with the headers that every answer has.
fn misaddressed() -> Router {
    let refusal = async || Problem::bad_request("an HTTP/1.1 request names its host exactly once");
    let envelope = EnvelopeLayer::new(Ambient::system(), BodyLimit::new(usize::MAX), Deadline::new(HEAD_PATIENCE));
    Router::new().fallback(refusal).layer(envelope)
}

/// Whether a request has one `Host` (RFC 9112, section 3.2). Of two, a proxy in front may have routed by the other.
fn names_one_host<B>(request: &hyper::Request<B>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() == Version::HTTP_10)
}
