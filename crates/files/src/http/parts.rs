//! Reading a form part by part.

use gatewright_http::Problem;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

pub(super) fn boundary(headers: &HeaderMap) -> Result<String, Problem> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    multer::parse_boundary(content_type)
        .map_err(|_| Problem::bad_request("the multipart content type names no boundary"))
}

pub(super) fn malformed(error: &multer::Error) -> Problem {
    tracing::debug!(%error, "a form with files cannot be read");
    Problem::of(StatusCode::BAD_REQUEST).with_detail("the multipart form is malformed, or ends too early")
}
