//! Redirects browsers back to a front end on another origin, for routes and screens.

use std::sync::Arc;

use axum::extract::Request;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use gatewright_http::{FormTarget, RedirectUrls};
use tower::Layer;

/// Makes `next` of bodies use the configured URLs, and allows redirects to them after forms of pages: browsers apply
/// the page's policy to the answer of its form.
#[derive(Debug, Clone)]
pub(crate) struct ReturningLayer {
    redirects: RedirectUrls,
    /// The origins that a form's answer may redirect to, for the policy.
    targets: Arc<[FormTarget]>,
}

impl ReturningLayer {
    pub(crate) fn new(redirects: RedirectUrls) -> Self {
        let targets = redirects.form_targets().into();
        Self { redirects, targets }
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
        if self.targets.is_empty() {
            return inner.pass(request);
        }
        let targets = self.targets.clone();
        let called = inner.call(request);
        answer(async move {
            let mut response = called.await;
            FormTarget::allow(&targets, &mut response);
            response
        })
    }
}
