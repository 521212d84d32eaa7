use std::fmt;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http::{HeaderName, HeaderValue, Method};

use super::ContentType;
use super::read::read;
use crate::Problem;

/// The types that a resource takes for a `PATCH` (RFC 5789, section 3.1).
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// The bytes of a JSON body that changes a resource, not parsed: `application/json`, or with `PATCH` also
/// `application/merge-patch+json` (RFC 7396).
///
/// Fails with 415 for another content type, with `Accept-Patch` for a `PATCH` (RFC 5789, section 2.2); otherwise like
/// [`RawJson`](super::RawJson).
#[derive(Clone)]
pub struct PatchJson {
    /// The body.
    pub bytes: Bytes,
    /// Whether it is a merge patch: objects in it are merged, at every depth.
    pub is_merge_patch: bool,
}

impl fmt::Debug for PatchJson {
    /// Shows only the length, because the content may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PatchJson({} bytes, is_merge_patch: {})", self.bytes.len(), self.is_merge_patch)
    }
}

impl<S: Sync> FromRequest<S> for PatchJson {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let is_patch = request.method() == Method::PATCH;
        let is_merge_patch = match ContentType::of(request.headers()) {
            ContentType::Json => false,
            ContentType::MergePatch if is_patch => true,
            _ => return Err(refused(request.method(), "application/json, application/merge-patch+json")),
        };
        let bytes = whole(request).await?;
        Ok(Self { bytes, is_merge_patch })
    }
}

/// The refusal of a content type where a `PATCH` takes those of `accepted`, and other methods JSON.
pub(super) fn refused(method: &Method, accepted: &'static str) -> Problem {
    let problem = Problem::unsupported_media_type("send the body as application/json");
    if *method != Method::PATCH {
        return problem;
    }
    problem.with_header(ACCEPT_PATCH, HeaderValue::from_static(accepted))
}

/// The body, which must not be empty.
pub(super) async fn whole(request: Request) -> Result<Bytes, Problem> {
    let bytes = read(request).await?;
    if bytes.is_empty() { Err(Problem::bad_request("the request body is empty")) } else { Ok(bytes) }
}
