//! Redirects browsers back to a front end on another origin, for routes and screens.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use gatewright_http::RedirectUrls;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;
use tower::Layer;

/// Makes `next` of bodies use the configured URLs, and allows redirects to them after forms of pages: browsers apply
/// the page's policy to the answer of its form.
#[derive(Debug, Clone)]
pub(crate) struct ReturningLayer {
    redirects: RedirectUrls,
    /// The origins that a form's answer may redirect to, for the policy.
    sources: Option<Arc<str>>,
}

impl ReturningLayer {
    pub(crate) fn new(redirects: RedirectUrls) -> Self {
        let sources = redirects.policy_sources().map(Arc::from);
        Self { redirects, sources }
    }
}

impl<S> Layer<S> for ReturningLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for ReturningLayer {
    fn handle<S: RouteService>(&self, mut request: Request, inner: Inner<'_, S>) -> Answer<S> {
        request.extensions_mut().insert(self.redirects.clone());
        let Some(sources) = self.sources.clone() else { return inner.pass(request) };
        let called = inner.call(request);
        answer(async move {
            let mut response = called.await;
            if let Some(policy) = policy(&response) {
                let wider = policy.replace("form-action 'self'", &format!("form-action 'self' {sources}"));
                if let Ok(wider) = HeaderValue::from_str(&wider) {
                    response.headers_mut().insert(CONTENT_SECURITY_POLICY, wider);
                }
            }
            response
        })
    }
}

fn policy(response: &Response) -> Option<String> {
    response.headers().get(CONTENT_SECURITY_POLICY)?.to_str().ok().map(str::to_owned)
}
