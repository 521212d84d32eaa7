use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use parking_lot::Mutex;

/// How much of a body that nobody read is read and thrown away, and for how long.
///
/// A client that is still sending when the connection closes sees it broken, and never the answer; one that keeps the
/// connection for its next request loses that. Past these bounds both are its own doing.
const DISCARDED_BYTES: usize = 16 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(5);

/// What an answer that came before its request's body was read has left of that body.
///
/// A refusal often needs no body: a limiter, a missing credential, a wrong content type. HTTP/1 then has the rest of
/// the body in front of the next request, so it is read to its end before the answer goes out, or the answer says
/// `Connection: close` (RFC 9112, section 9.6): where the rest is too long, and where the client waits to be asked for
/// it (`Expect: 100-continue`).
pub(super) struct Remainder {
    place: Arc<Mutex<Option<Body>>>,
    waits: bool,
}

impl Remainder {
    /// Sees to the body of `request`; `None` where nothing can remain: streams of HTTP/2 end on their own.
    pub(super) fn watch(request: Request) -> (Request, Option<Self>) {
        if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
            return (request, None);
        }
        let place = Arc::default();
        let waits = request.headers().contains_key(EXPECT);
        let remainder = Self { place: Arc::clone(&place), waits };
        (request.map(|body| Body::new(Watched { body, place })), Some(remainder))
    }

    /// Lets `response` go once nothing is in its way.
    pub(super) async fn settle(self, mut response: Response) -> Response {
        let Some(body) = self.place.lock().take() else { return response };
        if self.waits || !discard(body).await {
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
    place: Arc<Mutex<Option<Body>>>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
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
            *self.place.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}
