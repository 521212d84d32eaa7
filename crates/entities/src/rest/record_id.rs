use std::convert::Infallible;

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

/// The id in the path, decoded. A segment that is not UTF-8 becomes the empty text, which is never an id. Like for any
/// other unknown id, the answer is 404, after the access check.
pub(super) struct RecordId(pub(super) String);

impl<S: Sync> FromRequestParts<S> for RecordId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let id = parts.extract::<Path<String>>().await;
        Ok(Self(id.map(|Path(id)| id).unwrap_or_default()))
    }
}
