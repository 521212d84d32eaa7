use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, COOKIE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use tower::Layer;

use super::guard::{MAX_AGE, is_preflight};
use crate::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use crate::{Origin, cross_site};

/// Headers that a page may send there, in addition to those that any page may send.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id, \
     X-API-Key, X-Request-Id, X-Tenant-ID",
);
/// Headers of an answer that a page may read, in addition to those that it may always read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "MCP-Protocol-Version, Mcp-Session-Id, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, \
     WWW-Authenticate, X-Request-Id",
);
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Lets pages of every origin call some paths, by tokens and never by cookies: the endpoints that programs find by the
/// discovery of an authorization server.
///
/// It answers preflights and lets every page read the answers, without credentials. A request of a page of another origin
/// loses its `Cookie` header and gets [`FromAnyOrigin`], so that no inner layer takes it for a request of the browser's
/// user. Put it outermost, outside of a [`BrowserGuard`](super::BrowserGuard) and of authentication.
#[derive(Debug, Clone)]
pub struct AnyOrigin(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    public: Option<Origin>,
    paths: Vec<OpenPath>,
}

/// A path that pages of every origin may call.
#[derive(Debug, Clone)]
pub struct OpenPath {
    /// The whole path. Only exactly this spelling is open.
    pub path: String,
    /// Its methods, for preflights: `POST` or `GET, HEAD`.
    pub methods: &'static str,
}

/// In the extensions of a request: [`AnyOrigin`] passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FromAnyOrigin {
    /// Whether a browser reports that a page of another origin sent it. Its cookies were removed.
    pub is_foreign: bool,
}

impl AnyOrigin {
    /// Opens `paths` of the service at `public`.
    pub fn new(public: Option<Origin>, paths: Vec<OpenPath>) -> Self {
        Self(Arc::new(Inside { public, paths }))
    }

    /// The paths that are open.
    pub fn paths(&self) -> &[OpenPath] {
        &self.0.paths
    }

    fn of(&self, path: &str) -> Option<&OpenPath> {
        self.0.paths.iter().find(|open| open.path == path)
    }

    fn is_foreign(&self, parts: &Parts) -> bool {
        let own = cross_site::own_origins(parts, self.0.public.as_ref());
        cross_site::from_another_site(&parts.headers, &own) || cross_site::from_sibling(&parts.headers)
    }
}

impl<S> Layer<S> for AnyOrigin {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for AnyOrigin {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let Some(open) = self.of(request.uri().path()) else { return inner.pass(request) };
        let (mut parts, body) = request.into_parts();
        if is_preflight(&parts) {
            let methods = HeaderValue::from_static(open.methods);
            return answer(async move { preflight(methods) });
        }
        let is_foreign = self.is_foreign(&parts);
        if is_foreign {
            parts.headers.remove(COOKIE);
        }
        parts.extensions.insert(FromAnyOrigin { is_foreign });
        let called = inner.call(Request::from_parts(parts, body));
        answer(async move {
            let mut response = called.await;
            mark(response.headers_mut());
            response
        })
    }
}

/// Lets every page read an answer. It is the same for all origins, so caches may share it.
fn mark(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
}

fn preflight(methods: HeaderValue) -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, methods),
        (ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    let mut response = (StatusCode::NO_CONTENT, headers).into_response();
    mark(response.headers_mut());
    response
}
