use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, answer};
use gatewright_http::{ProblemLink, RateLimited};
use http::HeaderMap;
use http::header::ACCEPT;
use http::request::Parts;

/// A check before a service. For a request that it covers, it returns a future: it admits the request, with headers for
/// the answer, or returns the refusal. A refused request never reaches the service.
#[derive(Clone)]
pub struct Gate(Arc<Watch>);

/// Decides whether a request is covered, and starts its check.
type Watch = dyn Fn(&Parts) -> Option<GateFuture> + Send + Sync;

/// See [`Gate`].
pub(crate) type GateFuture = Pin<Box<dyn Future<Output = Result<HeaderMap, Response>> + Send>>;

/// Refuses every request.
pub(crate) fn refuse(why: impl IntoResponse) -> GateFuture {
    Box::pin(std::future::ready(Err(why.into_response())))
}

impl Gate {
    pub(crate) fn new(watch: impl Fn(&Parts) -> Option<GateFuture> + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

impl Middleware for Gate {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let (parts, body) = request.into_parts();
        let Some(admission) = (self.0)(&parts) else { return inner.pass(Request::from_parts(parts, body)) };
        let accept: HeaderMap = parts.headers.get_all(ACCEPT).iter().map(|value| (ACCEPT, value.clone())).collect();
        let request = Request::from_parts(parts, body);
        let inner = inner.take();
        answer(async move {
            match admission.await {
                Ok(headers) => {
                    let mut response = inner.call(request).await;
                    response.headers_mut().extend(headers);
                    response
                }
                Err(refusal) => RateLimited::for_browser(refusal, &accept, &[ProblemLink::START]),
            }
        })
    }
}
