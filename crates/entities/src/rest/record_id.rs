use std::convert::Infallible;

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

/// The id in the path, decoded. A segment that is not UTF-8 becomes the empty text, which is nobody's id: like any other
/// id that is not there, it is a 404, after the caller's right was looked at.
pub(super) struct RecordId(pub(super) String);

impl<S: Sync> FromRequestParts<S> for RecordId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let id = parts.extract::<Path<String>>().await;
        Ok(Self(id.map(|Path(id)| id).unwrap_or_default()))
    }
}
