use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue};
use tower::Layer;

use super::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use crate::html::STRICT_POLICY;

/// `X-Content-Type-Options: nosniff` on every answer, `Referrer-Policy: same-origin` if none is set, and a strict
/// `Content-Security-Policy` on HTML without one.
///
/// `same-origin` and not `no-referrer`: the latter makes browsers send `Origin: null` with the site's own forms, which
/// the cross-site guard could not distinguish from another site's. With both, links with tokens do not leak to other
/// sites.
pub async fn security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    secure(response.headers_mut());
    response
}

pub(super) fn secure(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    if is_html(headers) {
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(STRICT_POLICY));
    }
}

/// `Cache-Control: no-store` on every answer, for routes whose answers carry credentials or personal data.
#[derive(Debug, Clone, Copy)]
pub struct NoStoreLayer;

impl<S> Layer<S> for NoStoreLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, *self)
    }
}

impl Middleware for NoStoreLayer {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let called = inner.call(request);
        answer(async move {
            let mut response = called.await;
            never_store(response.headers_mut());
            response
        })
    }
}

pub(super) fn never_store(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

fn is_html(headers: &HeaderMap) -> bool {
    let html = |value: &HeaderValue| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        essence.eq_ignore_ascii_case(b"text/html") || essence.eq_ignore_ascii_case(b"application/xhtml+xml")
    };
    headers.get(CONTENT_TYPE).is_some_and(html)
}
