//! The answers of the admin API.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use gatewright_auth::AccountError;
use gatewright_auth::users::UserStoreError;
use gatewright_base::{JsonCase, time};
use gatewright_http::Problem;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The `Retry-After` of a store that is not available.
const RETRY: Duration = Duration::from_secs(1);
/// The default number of items on a page.
const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 200;

/// An object whose keys have the server's configured case.
pub(super) fn object<'a>(case: JsonCase, members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let members = members.into_iter().map(|(key, value)| (case.spell(key), value));
    Value::Object(members.collect::<Map<_, _>>())
}

/// `{"data":[…],"cursor":…}`; the cursor is null on the last page.
pub(super) fn page(data: Vec<Value>, cursor: Option<String>) -> Json<Value> {
    let members = [("data".to_owned(), Value::Array(data)), ("cursor".to_owned(), cursor.into())];
    Json(Value::Object(members.into_iter().collect()))
}

/// `{"data":…}`.
pub(super) fn data(value: impl Into<Value>) -> Json<Value> {
    Json(serde_json::json!({ "data": value.into() }))
}

/// The size of a page.
pub(super) fn limit(asked: Option<u32>) -> u32 {
    asked.unwrap_or(PAGE).clamp(1, LARGEST_PAGE)
}

/// A moment, or null.
pub(super) fn moment(at: Option<Timestamp>) -> Value {
    at.map(time::format).into()
}

/// The audit record of an act: the answer passes it to the gate.
#[derive(Debug, Clone, Default)]
pub(super) struct Noted(pub(super) Map<String, Value>);

/// An answer with details for the audit log.
pub(super) fn noted<'a>(answer: impl IntoResponse, details: impl IntoIterator<Item = (&'a str, Value)>) -> Response {
    let mut response = answer.into_response();
    let details = details.into_iter().map(|(key, value)| (key.to_owned(), value));
    response.extensions_mut().insert(Noted(details.collect()));
    response
}

/// 503: a store failed, so that nothing is known. The log has the cause.
pub(super) fn unavailable(error: &(dyn std::error::Error + 'static)) -> Problem {
    if gatewright_db::Error::is_unreadable(error) {
        return Problem::record_unreadable(error);
    }
    tracing::error!(%error, "an admin API request failed");
    Problem::unavailable("the data cannot be read right now", RETRY)
}

pub(super) fn account(error: AccountError) -> Problem {
    match error {
        AccountError::Users(UserStoreError::NotFound) => Problem::not_found("no such user"),
        AccountError::Users(error @ UserStoreError::Referenced(_)) => {
            Problem::conflict(error.to_string()).with_code("referenced")
        }
        AccountError::Unsupported(_) | AccountError::ListUsersUnsupported => {
            Problem::conflict(error.to_string()).with_code("unsupported")
        }
        AccountError::Unverified(_) => {
            let detail = format!("{error}; send `\"unverified\": true` to act on it nevertheless");
            Problem::conflict(detail).with_code("email_unverified")
        }
        AccountError::BeingDeleted => Problem::conflict(error.to_string()).with_code("being_deleted"),
        AccountError::InvitationClaimed(left) => {
            Problem::conflict(error.to_string()).with_code("invitation_claimed").retry_after(left)
        }
        AccountError::RegistrationClosed => Problem::forbidden(error.to_string()).with_code("registration_closed"),
        error => unavailable(&error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is an argument of map_err")]
pub(super) fn database(error: gatewright_db::Error) -> Problem {
    unavailable(&error)
}
