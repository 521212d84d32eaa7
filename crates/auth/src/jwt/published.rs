//! `GET /.well-known/jwks.json`: the public keys of JWTs (RFC 7517, section 5).

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::HeaderValue;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL};
use serde_json::json;

use super::Jwts;
use super::keys::MAX_AGE;
use gatewright_http::Problem;

/// The path of the set.
const JWKS: &str = "/.well-known/jwks.json";

/// The document, at the root. Any page may read it.
pub(crate) fn routes(jwts: Arc<Jwts>) -> Router {
    Router::new().route(JWKS, get(published)).with_state(jwts)
}

/// 404 while there is no key: an empty set looks like one whose keys were all withdrawn.
async fn published(State(jwts): State<Arc<Jwts>>) -> Response {
    let open = (ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    match jwts.published() {
        Some(keys) => {
            let cache = format!("public, max-age={}", MAX_AGE.as_secs());
            (
                [open, (CACHE_CONTROL, HeaderValue::try_from(cache).expect("words and a number are a header"))],
                Json(json!({ "keys": keys })),
            )
                .into_response()
        }
        None => {
            let problem = Problem::not_found("no public key: JWTs are signed with a secret");
            ([open, (CACHE_CONTROL, HeaderValue::from_static("no-store"))], problem).into_response()
        }
    }
}
