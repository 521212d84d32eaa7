use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_LENGTH;
use http_body::Body as _;
use http_body_util::Limited;

use super::remainder::Remainder;
use crate::Problem;

/// The most bytes that a request body may have. In the extensions of a request that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit {
    bytes: usize,
    setting: Option<&'static str>,
}

/// Answers 413 to a body whose announced length is over the limit, and stops reading one that turns out longer: the
/// extractors of this crate then answer 413 too. Axum's own default limit must be off (`DefaultBodyLimit::disable`) for
/// limits above 2 MB to count. After an early answer, the rest of the body is read and discarded.
pub async fn body_limit(State(limit): State<BodyLimit>, request: Request, next: Next) -> Response {
    let (request, remainder) = Remainder::watch(request);
    let response = match limit.applied_to(request) {
        Ok(request) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    match remainder {
        Some(remainder) => remainder.settle(response).await,
        None => response,
    }
}

impl BodyLimit {
    /// At most this many bytes.
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, setting: None }
    }

    /// Names the configuration's key that sets the limit, for the 413.
    pub const fn set_by(self, setting: &'static str) -> Self {
        Self { setting: Some(setting), ..self }
    }

    /// The 413 for a body that is longer. It names the limit and, where known, the key that sets it.
    pub fn exceeded(self) -> Problem {
        let Self { bytes, setting } = self;
        let by = setting.map(|setting| format!(" (`{setting}`)")).unwrap_or_default();
        Problem::too_large().with_detail(format!("the request body is larger than {bytes} bytes{by}"))
    }

    /// The request with its body cut off at the limit, or 413 where it announces more.
    pub(super) fn applied_to(self, mut request: Request) -> Result<Request, Problem> {
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > self.bytes)) {
            return Err(self.exceeded());
        }
        // A request without a body needs no limit, and no box.
        if request.body().is_end_stream() {
            return Ok(request);
        }
        request.extensions_mut().insert(self);
        // A body of known length needs none either: a connection delivers at most the announced length.
        if request.body().size_hint().exact().is_some_and(|bytes| bytes <= self.bytes as u64) {
            return Ok(request);
        }
        Ok(request.map(|body| Body::new(Limited::new(body, self.bytes))))
    }
}
