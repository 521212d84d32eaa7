use std::sync::Arc;

use axum::extract::{OriginalUri, Request};
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use tower::Layer;

use super::metadata::resource_metadata;
use crate::schemes::bearer;
use crate::tokens::Resources;

/// Adds `WWW-Authenticate` to a 401, and to a 403 for a missing scope, so that a program finds where to get a token
/// (RFC 9728, section 5.1). From [`Auth::oauth2_challenge`](crate::Auth::oauth2_challenge); put it around the routes
/// that accept tokens.
#[derive(Debug, Clone)]
pub struct ChallengeLayer {
    resources: Arc<Resources>,
    scope: Arc<str>,
}

impl ChallengeLayer {
    pub(crate) fn new(resources: Resources, scope: &str) -> Self {
        Self { resources: Arc::new(resources), scope: scope.into() }
    }

    /// The challenge for a missing scope, with the place to get a token with more scopes.
    fn further(&self, path: &str, asked: &HeaderValue) -> Option<HeaderValue> {
        let asked = asked.to_str().ok().filter(|asked| asked.starts_with("Bearer error=\"insufficient_scope\""))?;
        let metadata = resource_metadata(&self.resources, self.resources.of_path(path));
        HeaderValue::from_str(&format!("{asked}, resource_metadata=\"{metadata}\"")).ok()
    }

    fn value(&self, path: &str, failed: bool) -> Option<HeaderValue> {
        let metadata = resource_metadata(&self.resources, self.resources.of_path(path));
        let error = if failed { "error=\"invalid_token\", " } else { "" };
        let scope = if self.scope.is_empty() || failed { String::new() } else { format!(", scope=\"{}\"", self.scope) };
        HeaderValue::from_str(&format!("Bearer {error}resource_metadata=\"{metadata}\"{scope}")).ok()
    }
}

impl<S> Layer<S> for ChallengeLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for ChallengeLayer {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let uri = request.extensions().get::<OriginalUri>().map_or_else(|| request.uri(), |original| &original.0);
        let path = uri.path().to_owned();
        let presented = bearer(request.headers()).is_some();
        let (layer, inner) = (self.clone(), inner.take());
        answer(async move {
            let mut response = inner.call(request).await;
            if response.status() == StatusCode::FORBIDDEN
                && let Some(value) =
                    response.headers().get(WWW_AUTHENTICATE).and_then(|asked| layer.further(&path, asked))
            {
                response.headers_mut().insert(WWW_AUTHENTICATE, value);
            }
            // The token endpoint asks clients for their own secret (RFC 6749, section 5.2).
            let asked = response.headers().get(WWW_AUTHENTICATE);
            let is_ours = asked.is_none_or(|asked| asked.as_bytes().starts_with(b"Bearer"));
            if response.status() == StatusCode::UNAUTHORIZED
                && is_ours
                && let Some(value) = layer.value(&path, presented)
            {
                response.headers_mut().insert(WWW_AUTHENTICATE, value);
            }
            response
        })
    }
}
