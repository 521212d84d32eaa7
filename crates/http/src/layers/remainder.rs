use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use parking_lot::Mutex;

/// How much of an unread body is read and discarded, and for how long.
///
/// If the connection closes while a client is still sending, the client gets an error instead of the answer; a client
/// that reuses the connection loses its next request. Beyond these limits, both can happen.
const DISCARDED_BYTES: usize = 16 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(5);

/// The rest of a request's body that was not read before the answer, and who waited for whom.
///
/// A refusal often needs no body: a limiter, a missing credential, a wrong content type. On HTTP/1 the rest of the body
/// precedes the next request. So it is read to its end before the answer is sent, or the answer has `Connection: close`
/// (RFC 9112, section 9.6): if the rest is too long, or if the client waits for `100 Continue` (`Expect:
/// 100-continue`). Streams of HTTP/2 end separately.
pub(super) struct Remainder {
    place: Arc<Place>,
    waits: bool,
    shares_connection: bool,
}

#[derive(Default)]
struct Place {
    unread: Mutex<Option<Body>>,
    /// Whether the reader waits for more of the body: it has everything that arrived, and the body is not complete.
    is_awaited: AtomicBool,
}

impl Remainder {
    /// Watches the body of `request`; `None` if it has no rest.
    pub(super) fn watch(request: Request) -> (Request, Option<Self>) {
        if request.body().is_end_stream() {
            return (request, None);
        }
        let place: Arc<Place> = Arc::default();
        let waits = request.headers().contains_key(EXPECT);
        let shares_connection = request.version() <= Version::HTTP_11;
        let remainder = Self { place: Arc::clone(&place), waits, shares_connection };
        (request.map(|body| Body::new(Watched { body, place })), Some(remainder))
    }

    /// Whether it is the client that is waited for: something reads the body, and the next of it has not come.
    pub(super) fn is_awaited(&self) -> bool {
        self.place.is_awaited.load(Ordering::Relaxed)
    }

    /// Returns `response` when the rest of the body is handled.
    pub(super) async fn settle(self, mut response: Response) -> Response {
        let Some(body) = self.place.unread.lock().take() else { return response };
        if !self.shares_connection {
            return response;
        }
        // A client that was just refused for being too slow gets no more time.
        let took_too_long = response.status() == StatusCode::REQUEST_TIMEOUT;
        if self.waits || took_too_long || !discard(body).await {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Reads `body` to its end; whether that came within the bounds.
async fn discard(body: Body) -> bool {
    let mut body = Limited::new(body, DISCARDED_BYTES);
    let rest = async {
        while let Some(frame) = body.frame().await {
            if frame.is_err() {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(DISCARDED_WITHIN, rest).await.unwrap_or(false)
}

/// A request's body that goes back to its place if it is dropped before its end.
struct Watched {
    body: Body,
    place: Arc<Place>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.place.is_awaited.store(frame.is_pending(), Ordering::Relaxed);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            *self.place.unread.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}
