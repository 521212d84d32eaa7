use axum::extract::FromRequestParts;
use axum::response::Response;
use gatewright_base::JsonCase;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::Problem;
use crate::body::form;

/// The query string as a `T`, which spells its fields in `snake_case`; callers may use camelCase too.
///
/// If the query is not a `T`, the answer is 400 with the name of the parameter that is repeated, missing or of another
/// type. It is a page for browsers and a [`Problem`] for programs. Parameters that `T` does not have are ignored, unless it
/// denies unknown fields.
#[derive(Debug, Clone)]
pub struct Query<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        parse(parts).map(Self).map_err(|problem| problem.answer_link(&parts.headers))
    }
}

fn parse<T: DeserializeOwned>(parts: &Parts) -> Result<T, Problem> {
    let case = parts.extensions.get::<JsonCase>().copied().unwrap_or_default();
    let fields = form::parse("query", parts.uri.query().unwrap_or_default().as_bytes())?;
    fields.parse(case).map_err(|error| match error.field() {
        Some(name) => Problem::bad_request(format!("the query parameter {name} {}", describe(&error))),
        None => Problem::bad_request(error.to_string()),
    })
}

/// The message as the end of a sentence about the parameter.
fn describe(error: &crate::FieldsError) -> String {
    match error.code() {
        "invalid" => format!("is not valid: {error}"),
        _ => error.to_string(),
    }
}
