use std::sync::{Arc, LazyLock};

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

/// `GET /openapi.json`. The document is written at the first request, so that a start does not wait for it, and once: it
/// does not change while the server runs.
pub(crate) fn routes(document: impl FnOnce() -> OpenApi + Send + 'static) -> Router {
    let written = LazyLock::new(Box::new(|| Written::new(&document())) as Box<_>);
    Router::new().route("/openapi.json", get(openapi)).with_state(Arc::new(written))
}

type Lazy = LazyLock<Written, Box<dyn FnOnce() -> Written + Send>>;

struct Written {
    json: Bytes,
    etag: String,
}

impl Written {
    fn new(document: &OpenApi) -> Self {
        let json = Bytes::from(serde_json::to_vec(document).expect("a document is maps, lists and text"));
        let tag = URL_SAFE_NO_PAD.encode(&Sha256::digest(&json)[..16]);
        Self { json, etag: format!("\"{tag}\"") }
    }
}

async fn openapi(State(written): State<Arc<Lazy>>, headers: HeaderMap) -> Response {
    let revalidated = [(ETAG, written.etag.clone()), (CACHE_CONTROL, "no-cache".to_owned())];
    let known = headers.get(IF_NONE_MATCH).is_some_and(|tags| tags.as_bytes() == written.etag.as_bytes());
    if known {
        return (StatusCode::NOT_MODIFIED, revalidated).into_response();
    }
    (revalidated, [(CONTENT_TYPE, "application/json")], written.json.clone()).into_response()
}
