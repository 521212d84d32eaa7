use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use utoipa::openapi::OpenApi;

/// `GET /openapi.json`. The document is written once: it does not change while the server runs.
pub(crate) fn routes(document: &OpenApi) -> Router {
    let json = Bytes::from(serde_json::to_vec(document).expect("a document is maps, lists and text"));
    let tag = URL_SAFE_NO_PAD.encode(&Sha256::digest(&json)[..16]);
    let written = Written { json, etag: format!("\"{tag}\"").into() };
    Router::new().route("/openapi.json", get(openapi)).with_state(written)
}

#[derive(Clone)]
struct Written {
    json: Bytes,
    etag: std::sync::Arc<str>,
}

async fn openapi(State(written): State<Written>, headers: HeaderMap) -> Response {
    let revalidated = [(ETAG, written.etag.to_string()), (CACHE_CONTROL, "no-cache".to_owned())];
    let known = headers.get(IF_NONE_MATCH).is_some_and(|tags| tags.as_bytes() == written.etag.as_bytes());
    if known {
        return (StatusCode::NOT_MODIFIED, revalidated).into_response();
    }
    (revalidated, [(CONTENT_TYPE, "application/json")], written.json).into_response()
}
