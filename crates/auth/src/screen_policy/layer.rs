use axum::extract::{OriginalUri, Request};
use axum::response::{IntoResponse, Redirect, Response};
use gatewright_base::Identity;
use gatewright_http::Problem;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use http::request::Parts;
use tower::Layer;

use super::ScreenPolicy;
use super::outcome::Outcome;

impl<S> Layer<S> for ScreenPolicy {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for ScreenPolicy {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let (policy, inner) = (self.clone(), inner.take());
        answer(async move {
            let (parts, body) = request.into_parts();
            let identity = parts.extensions.get::<Identity>().cloned().unwrap_or_default();
            let response = match policy.outcome(&identity, &parts.method, &path(&parts)) {
                Outcome::Allow => return inner.call(Request::from_parts(parts, body)).await,
                Outcome::RenderAlt => match &policy.alternative {
                    Some(make) => make(parts).await,
                    None => Problem::forbidden("forbidden").into_response(),
                },
                Outcome::Redirect(url) => Redirect::to(&url).into_response(),
                Outcome::Block(problem) => problem.answer_link(&parts.headers),
            };
            no_store(response)
        })
    }
}

/// The client's original path, also below a nested router.
fn path(parts: &Parts) -> String {
    let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |OriginalUri(uri)| uri);
    uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string)
}

/// Other callers get another answer at the same address, so no cache may share it.
fn no_store(mut response: Response) -> Response {
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
