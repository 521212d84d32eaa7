use std::convert::Infallible;

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

/// The one parameter of a route's path, decoded: the id of `/tokens/{id}`.
///
/// Invalid UTF-8 becomes the empty text, which names nothing. So the handler answers as for any unknown name, after it
/// has checked the caller's permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment(pub String);

impl<S: Sync> FromRequestParts<S> for Segment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let text = parts.extract::<Path<String>>().await;
        Ok(Self(text.map(|Path(text)| text).unwrap_or_default()))
    }
}
