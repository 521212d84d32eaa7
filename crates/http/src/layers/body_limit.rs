use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};

use crate::Problem;

/// How much of a refused body is read and thrown away, and for how long.
///
/// A client that is still sending when the connection closes sees it broken, and never the answer. Past these bounds
/// that is its own doing.
const DISCARDED_BYTES: usize = 16 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(5);

/// The most bytes that a request body may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit(pub usize);

/// Answers 413 to a body that announces more than the limit, and cuts off one that turns out longer: the extractors of
/// this crate then answer 413 too. Axum's own default limit must be off (`DefaultBodyLimit::disable`) for limits above
/// 2 MB to count.
pub async fn body_limit(State(limit): State<BodyLimit>, request: Request, next: Next) -> Response {
    match limit.applied_to(request) {
        Ok(request) => next.run(request).await,
        Err(refused) => refused.answer().await,
    }
}

/// The request announces more than the limit; its body, unless the client waits to be asked for it.
pub(super) struct TooLarge(Option<Body>);

impl TooLarge {
    /// 413, once the client is done sending or has sent more than enough.
    pub(super) async fn answer(self) -> Response {
        if let Some(body) = self.0 {
            let mut body = Limited::new(body, DISCARDED_BYTES);
            let rest = async { while let Some(Ok(_)) = body.frame().await {} };
            let _ = tokio::time::timeout(DISCARDED_WITHIN, rest).await;
        }
        Problem::too_large().into_response()
    }
}

impl BodyLimit {
    /// The request with its body cut off at the limit.
    pub(super) fn applied_to(self, request: Request) -> Result<Request, TooLarge> {
        let Self(limit) = self;
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > limit)) {
            let waits = request.headers().contains_key(EXPECT);
            return Err(TooLarge((!waits).then(|| request.into_body())));
        }
        // A request without a body needs no limit, nor the box around one.
        if request.body().is_end_stream() {
            return Ok(request);
        }
        Ok(request.map(|body| Body::new(Limited::new(body, limit))))
    }
}
