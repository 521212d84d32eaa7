use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use gatewright_base::JsonCase;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::CsrfToken;

/// `GET {auth_base}/csrf`: `{"csrfToken":"…"}`, never stored, for scripts, which cannot read the cookie.
///
/// Mount it under [`Csrf`](super::Csrf). The key follows the [`JsonCase`] of the request's extensions. Pages of other
/// origins cannot read the answer, unless CORS headers allow it.
pub async fn csrf_token(case: Option<Extension<JsonCase>>, token: CsrfToken) -> Response {
    let key = case.map(|Extension(case)| case).unwrap_or_default().spell("csrf_token");
    let body = serde_json::json!({ key: token.value() }).to_string();
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}
