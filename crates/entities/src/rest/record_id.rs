use std::convert::Infallible;

use axum::extract::FromRequestParts;
use gatewright_http::Segment;
use http::request::Parts;

/// The id in the path. What cannot be one becomes the empty text, which is never an id: see [`Segment`]. Like for any
/// other unknown id, the answer is 404, after the access check.
pub(super) struct RecordId(pub(super) String);

impl<S: Sync> FromRequestParts<S> for RecordId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Segment::from_request_parts(parts, state).await.map(|Segment(id)| Self(id))
    }
}
