use std::task::{Context, Poll};

use http::Request;
use tokio::task::futures::TaskLocalFuture;
use tower::{Layer, Service};

use super::{Locale, Presentation};

/// Gives each request the [`Locale`] of its visitor.
#[derive(Debug, Clone)]
pub struct LocaleLayer(Presentation);

/// A service within a [`LocaleLayer`].
#[derive(Debug, Clone)]
pub struct Localized<S> {
    inner: S,
    presentation: Presentation,
}

impl LocaleLayer {
    pub(super) fn new(presentation: Presentation) -> Self {
        Self(presentation)
    }
}

impl<S> Layer<S> for LocaleLayer {
    type Service = Localized<S>;

    fn layer(&self, inner: S) -> Localized<S> {
        Localized { inner, presentation: self.0.clone() }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Localized<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = TaskLocalFuture<Locale, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let locale = self.presentation.visit(request.method(), request.uri(), request.headers());
        locale.scope(self.inner.call(request))
    }
}
