use axum::response::Response;
use http::{HeaderMap, StatusCode};

use crate::{Problem, ProblemLink};

/// The answer to a path without a route: 404. A page for a browser.
pub async fn not_found(headers: HeaderMap) -> Response {
    Problem::not_found("there is nothing at this path").with_link(ProblemLink::START).answer_link(&headers)
}

/// The answer to a method that a route does not take: 405. Axum adds `Allow`.
pub async fn method_not_allowed() -> Problem {
    Problem::of(StatusCode::METHOD_NOT_ALLOWED)
}
