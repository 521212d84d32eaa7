use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use gatewright_http::layers::take_ready;
use gatewright_http::{RateLimited, WayOn};
use http::HeaderMap;
use http::header::ACCEPT;
use http::request::Parts;
use tower::Service;

/// What stands before a service: for a request it watches, the future that lets it pass, with headers for the answer, or
/// gives the refusal.
pub(crate) type Gate = Arc<dyn Fn(&Parts) -> Option<Passage> + Send + Sync>;
/// See [`Gate`].
pub(crate) type Passage = Pin<Box<dyn Future<Output = Result<HeaderMap, Response>> + Send>>;

/// Lets nothing pass.
pub(crate) fn refuse(why: impl IntoResponse) -> Passage {
    Box::pin(std::future::ready(Err(why.into_response())))
}

/// A service behind a [`LimiterLayer`](crate::LimiterLayer) or a
/// [`TokenBucketLayer`](crate::bucket::TokenBucketLayer). A refused request never reaches it.
#[derive(Clone)]
pub struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S> Gated<S> {
    pub(crate) fn new(inner: S, gate: Gate) -> Self {
        Self { inner, gate }
    }
}

impl<S: fmt::Debug> fmt::Debug for Gated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gated").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S> Service<Request> for Gated<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (parts, body) = request.into_parts();
        let passage = (self.gate)(&parts);
        let accept: HeaderMap = parts.headers.get_all(ACCEPT).iter().map(|value| (ACCEPT, value.clone())).collect();
        let request = Request::from_parts(parts, body);
        let Some(passage) = passage else {
            return Box::pin(self.inner.call(request));
        };
        let mut inner = take_ready(&mut self.inner);
        Box::pin(async move {
            match passage.await {
                Ok(headers) => {
                    let mut response = inner.call(request).await?;
                    response.headers_mut().extend(headers);
                    Ok(response)
                }
                Err(refusal) => Ok(RateLimited::for_browser(refusal, &accept, &[WayOn::START])),
            }
        })
    }
}
