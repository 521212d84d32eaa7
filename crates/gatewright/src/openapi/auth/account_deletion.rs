use serde_json::json as value;
use utoipa::openapi::ObjectBuilder;
use utoipa::openapi::path::HttpMethod;

use super::done_or_page;
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::string;

/// Deleting one's own account.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let operation = draft
        .auth(HttpMethod::Post, base, "/delete-account", "deleteAccount", "Delete the caller's account permanently")
        .about(
            "Needs a session. An account without a password needs a session younger than five minutes. 409 \
             `last_owner` if a tenant with other members has no other owner; 409 `referenced` if a record restricts \
             the deletion.",
        )
        .submitted(proof(), true, &value!({ "password": "correct horse battery" }))
        .for_sessions(Page::ForForms)
        .answers(
            200,
            done_or_page("The account is closed. Its remaining data is deleted in the background.", "deleted"),
        )
        .fails(&[409], Page::ForForms)
        .limited();
    draft.add(operation);
}

/// The input of a fresh proof of identity.
pub(super) fn proof() -> ObjectBuilder {
    described("Required if the account has a password.")
}

/// The same where a young session needs no proof.
pub(super) fn proof_unless_young() -> ObjectBuilder {
    with_proof(ObjectBuilder::new())
}

/// A body with the proof that a session needs which is not young.
pub(super) fn with_proof(body: ObjectBuilder) -> ObjectBuilder {
    proven(body, "Required if the account has a password and the session is not younger than five minutes.")
}

fn described(password: &str) -> ObjectBuilder {
    proven(ObjectBuilder::new(), password)
}

fn proven(body: ObjectBuilder, password: &str) -> ObjectBuilder {
    body.property("password", string().description(Some(password)))
        .property("code", string().description(Some("A code of the second factor, if the account has one.")))
}
