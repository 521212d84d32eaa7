use std::any::Any;

use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::Problem;

/// Answers a panic with the 500 of any internal error, and logs its message.
pub(super) fn answer(payload: &(dyn Any + Send)) -> Response {
    let message = match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
        (Some(text), _) => text,
        (None, Some(text)) => *text,
        (None, None) => "a value that is not text",
    };
    tracing::error!(panic = message, "a handler panicked");
    Problem::of(StatusCode::INTERNAL_SERVER_ERROR).into_response()
}
