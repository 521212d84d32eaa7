use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use crate::Problem;

/// The whole body within the limit that [`layers::body_limit`](crate::layers::body_limit) set (2 MB without it).
///
/// 413 over the limit, 415 for a compressed body (nothing here decompresses, so that no small body becomes a large
/// one), 400 when the connection breaks off.
pub(super) async fn read(request: Request) -> Result<Bytes, Problem> {
    refuse_compressed(request.headers())?;
    Bytes::from_request(request, &()).await.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => Problem::too_large(),
        _ => Problem::bad_request("the request body could not be read"),
    })
}

fn refuse_compressed(headers: &HeaderMap) -> Result<(), Problem> {
    let plain =
        headers.get_all(CONTENT_ENCODING).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"));
    if plain { Ok(()) } else { Err(Problem::unsupported_media_type("a compressed request body is not supported")) }
}
