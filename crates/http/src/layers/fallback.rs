use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use http::{HeaderMap, Method, StatusCode};

use crate::{Problem, ProblemLink};

/// The answer to a path without a route: 404. A page for a browser.
pub async fn not_found(headers: HeaderMap) -> Response {
    Problem::not_found("there is nothing at this path").with_link(ProblemLink::START).answer_link(&headers)
}

/// The answer to a method that a route does not take: 405. Axum adds `Allow`.
pub async fn method_not_allowed() -> Problem {
    Problem::of(StatusCode::METHOD_NOT_ALLOWED)
}

/// The route of a GET that changes something. It takes no HEAD, which would make the change without showing the answer: `get`
/// alone would run `handler` for it.
pub fn get_with_effect<H, T, S>(handler: H) -> MethodRouter<S>
where
    H: Handler<T, S>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    let only_get = async || Problem::method_not_allowed(&[Method::GET]);
    get(handler).head(only_get).fallback(only_get)
}
