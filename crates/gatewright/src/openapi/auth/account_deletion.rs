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
        .auth(HttpMethod::Post, base, "/delete-account", "deleteAccount", "Delete the caller's account for good")
        .about(
            "For a session. An account without a password needs one younger than five minutes. 409 `last_owner` while a \
             tenant with other members has no other owner, and `referenced` while a record must not lose the account.",
        )
        .submitted(proof(), true, &value!({ "password": "correct horse battery" }))
        .for_sessions(Page::ForForms)
        .answers(200, done_or_page("The account is closed. What is left of it is deleted in the background.", "deleted"))
        .fails(&[409], Page::ForForms)
        .limited();
    draft.add(operation);
}

/// The input of a fresh proof of identity.
pub(super) fn proof() -> ObjectBuilder {
    ObjectBuilder::new()
        .property("password", string().description(Some("Required where the account has one.")))
        .property("code", string().description(Some("Of the second factor, where there is one.")))
}
