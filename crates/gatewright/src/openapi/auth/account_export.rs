use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use super::account_deletion::proof;
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{json, typed};

/// A copy of everything for an account's owner.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let answer = || json("Everything that the service stores about the caller, as a file.", typed(Type::Object), None);
    let young = draft
        .auth(HttpMethod::Get, base, "/export", "exportAccount", "Everything that the service stores about the caller")
        .about("For a session younger than five minutes, with the second factor where there is one. 409 `export_under_way`.")
        .for_sessions(Page::ForForms)
        .answers(200, answer())
        .fails(&[409, 500, 503], Page::ForForms)
        .limited();
    let proven = draft
        .auth(HttpMethod::Post, base, "/export", "exportAccountWithProof", "The same with a fresh proof")
        .about("For a session of any age.")
        .submitted(proof(), true, &value!({ "password": "correct horse battery" }))
        .for_sessions(Page::ForForms)
        .answers(200, answer())
        .fails(&[409], Page::ForForms)
        .limited();
    draft.add(young);
    draft.add(proven);
}
