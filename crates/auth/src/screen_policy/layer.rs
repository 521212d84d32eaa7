use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::{OriginalUri, Request};
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::BoxFuture;
use gatewright_base::Identity;
use gatewright_http::Problem;
use gatewright_http::layers::take_ready;
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use http::request::Parts;
use tower::{Layer, Service};

use super::ScreenPolicy;
use super::outcome::Outcome;

/// A screen behind a [`ScreenPolicy`].
#[derive(Debug, Clone)]
pub struct Screen<S> {
    inner: S,
    policy: ScreenPolicy,
}

impl<S> Layer<S> for ScreenPolicy {
    type Service = Screen<S>;

    fn layer(&self, inner: S) -> Screen<S> {
        Screen { inner, policy: self.clone() }
    }
}

impl<S> Service<Request> for Screen<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let policy = self.policy.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let identity = parts.extensions.get::<Identity>().cloned().unwrap_or_default();
            let answer = match policy.outcome(&identity, &parts.method, &path(&parts)) {
                Outcome::Allow => return inner.call(Request::from_parts(parts, body)).await,
                Outcome::RenderAlt => match &policy.alternative {
                    Some(make) => make(parts).await,
                    None => Problem::forbidden("forbidden").into_response(),
                },
                Outcome::Redirect(url) => Redirect::to(&url).into_response(),
                Outcome::Block(problem) => problem.answer_link(&parts.headers),
            };
            Ok(kept_by_nobody(answer))
        })
    }
}

/// As the client asked for it, below a nested router too.
fn path(parts: &Parts) -> String {
    let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |OriginalUri(uri)| uri);
    uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string)
}

/// The same address shows others something else: no cache may hand this out to them.
fn kept_by_nobody(mut answer: Response) -> Response {
    answer.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}
