use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::unreadable::Unreadable;
use crate::Problem;
use crate::layers::BodyLimit;

/// The whole body within the limit that [`layers::body_limit`](crate::layers::body_limit) set (2 MB without it).
///
/// 413 over the limit, 503 if there is no memory for it, 415 for a compressed body (nothing here decompresses, so that no small body
/// becomes a large one), 400 if the connection breaks.
pub(super) async fn read(request: Request) -> Result<Bytes, Problem> {
    refuse_compressed(request.headers())?;
    let limit = request.extensions().get::<BodyLimit>().copied();
    Bytes::from_request(request, &()).await.map_err(|rejection| {
        let unreadable = match &rejection {
            BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => Unreadable::TooLarge,
            other => Unreadable::of(other),
        };
        unreadable.into_problem(limit)
    })
}

fn refuse_compressed(headers: &HeaderMap) -> Result<(), Problem> {
    let plain =
        headers.get_all(CONTENT_ENCODING).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"));
    if plain { Ok(()) } else { Err(Problem::unsupported_media_type("a compressed request body is not supported")) }
}
