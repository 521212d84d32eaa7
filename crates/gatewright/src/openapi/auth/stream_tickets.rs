use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;

use crate::openapi::Draft;
use crate::openapi::names::{API_TOKEN, JWT, Page, SESSION};
use crate::openapi::words::{integer, json, object, string};

/// Tickets for event streams.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let expires_in = draft.case.spell("expires_in");
    let ticket = object([("ticket".to_owned(), string())])
        .property(expires_in.as_str(), integer().description(Some("In seconds.")))
        .required(expires_in.as_str());
    let example = value!({ "ticket": "nQ3…", (expires_in): 30 });
    let make = draft
        .auth(HttpMethod::Post, base, "/stream-ticket", "makeStreamTicket", "Create a ticket for an event stream")
        .about("Opens one stream by `?ticket=`, with the caller's identity, scopes and tenant.")
        .open_to(&[SESSION, JWT, API_TOKEN], false)
        .answers(200, json("The ticket.", ticket, Some(example)))
        .fails(&[401, 403, 429], Page::Never);
    draft.add(make);
}
