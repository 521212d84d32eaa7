use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use super::TAG;
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{json, list_of, object, typed};

/// The public keys of JWTs.
pub(super) fn describe(draft: &mut Draft) {
    let (path, id) = ("/.well-known/jwks.json", "jwtKeys");
    let set = object([("keys".to_owned(), list_of(typed(Type::Object)))]);
    let example = value!({ "keys": [{ "kid": "NzbLsXh8…", "use": "sig", "alg": "ES256", "crv": "P-256", "kty": "EC", "x": "…", "y": "…" }] });
    let about = "The set may be kept for the `max-age` of its `Cache-Control`: a key is in it for longer than that before it signs. 404 \
                 while there is no key, because JWTs are signed with a secret (HS256).";
    let described = draft
        .operation(HttpMethod::Get, path, id.to_owned(), TAG, "Get the public keys of JWTs (RFC 7517)")
        .about(about)
        .answers(200, json("The keys.", set, Some(example)))
        .fails(&[404], Page::Never);
    draft.add(described);
}
