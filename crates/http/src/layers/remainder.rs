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

/// How much of a body that nobody read is read and thrown away, and for how long.
///
/// A client that is still sending when the connection closes sees it broken, and never the answer; one that keeps the
/// connection for its next request loses that. Past these bounds both are its own doing.
const DISCARDED_BYTES: usize = 16 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(5);

/// What an answer that came before its request's body was read has left of that body, and who waited for whom.
///
/// A refusal often needs no body: a limiter, a missing credential, a wrong content type. HTTP/1 then has the rest of
/// the body in front of the next request, so it is read to its end before the answer goes out, or the answer says
/// `Connection: close` (RFC 9112, section 9.6): where the rest is too long, and where the client waits to be asked for
/// it (`Expect: 100-continue`). Streams of HTTP/2 end on their own.
pub(super) struct Remainder {
    place: Arc<Place>,
    waits: bool,
    shares_connection: bool,
}

#[derive(Default)]
struct Place {
    unread: Mutex<Option<Body>>,
    /// Whether who reads the body has all that came of it, and it is not all there is.
    is_awaited: AtomicBool,
}

impl Remainder {
    /// Sees to the body of `request`; `None` where nothing can remain.
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

    /// Lets `response` go once nothing is in its way.
    pub(super) async fn settle(self, mut response: Response) -> Response {
        let Some(body) = self.place.unread.lock().take() else { return response };
        if !self.shares_connection {
            return response;
        }
        // A client that was just told how long it took has had its time.
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

/// A request's body that goes back to its place when it is dropped before its end.
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
