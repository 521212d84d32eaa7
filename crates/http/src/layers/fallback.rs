use http::StatusCode;

use crate::Problem;

/// The answer to a path that is no route: 404.
pub async fn not_found() -> Problem {
    Problem::not_found("there is nothing at this path")
}

/// The answer to a method that a route does not take: 405. Axum adds `Allow`.
pub async fn method_not_allowed() -> Problem {
    Problem::of(StatusCode::METHOD_NOT_ALLOWED)
}
