use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    AUTHORIZATION, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tower::Layer;

use super::{BrowserBackend, CookieOnly, FromAnyOrigin};
use crate::Problem;
use crate::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// How long a browser may keep the answer to a preflight, in seconds: ten minutes.
pub(super) const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Headers of an answer that a page may read, in addition to those that it may always read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Event-Cursor, Idempotent-Replayed, Location, Retry-After, X-Request-Id, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, \
     Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Expires, Upload-Length, \
     Upload-Metadata, Upload-Offset",
);

/// The layer of [`BrowserBackend::guard`].
#[derive(Debug, Clone)]
pub struct BrowserGuard(pub(super) Arc<BrowserBackend>);

impl<S> Layer<S> for BrowserGuard {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for BrowserGuard {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let (mut parts, body) = request.into_parts();
        // A path that is open to every origin takes no cookies of a page of another one.
        let is_open = parts.extensions.get::<FromAnyOrigin>().is_some();
        if is_open || !self.0.surface.covers(&parts) {
            return inner.pass(Request::from_parts(parts, body));
        }
        let (backend, inner) = (self.0.clone(), inner.take());
        answer(async move {
            let from = From::read(&backend, &parts.headers);
            let mut response = match refusal(&backend, &parts, &from) {
                Some(refusal) => refusal,
                None => {
                    parts.extensions.insert(CookieOnly);
                    inner.call(Request::from_parts(parts, body)).await
                }
            };
            from.mark(response.headers_mut());
            response
        })
    }
}

/// The origin of a request, by its `Origin`.
enum From {
    /// The service's own origin, or no `Origin` header.
    Here,
    /// An allowed one.
    Allowed(HeaderValue),
    /// Any other origin, or an invalid header.
    Elsewhere,
}

impl From {
    fn read(backend: &BrowserBackend, headers: &HeaderMap) -> Self {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Self::Here,
            (Some(origin), None) if backend.allowed.contains(origin) => Self::Allowed(origin.clone()),
            (Some(origin), None) if origin == backend.public.as_str() => Self::Here,
            _ => Self::Elsewhere,
        }
    }

    /// Sets which origin may read the answer. CORS headers of an inner layer are replaced, and `Vary: Origin` is always
    /// set for caches.
    fn mark(&self, headers: &mut HeaderMap) {
        headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
        headers.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
        if let Self::Allowed(origin) = self {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
}

/// The answer, if the request does not reach the routes.
fn refusal(backend: &BrowserBackend, parts: &Parts, from: &From) -> Option<Response> {
    let is_posted = parts.method == Method::POST && backend.posted.iter().any(|path| path == parts.uri.path());
    if matches!(from, From::Elsewhere) && !is_posted {
        tracing::info!(path = parts.uri.path(), "request refused: its origin is not allowed");
        return Some(not_allowed().answer(&parts.headers));
    }
    if matches!(from, From::Allowed(_)) && is_preflight(parts) {
        return Some(preflight(backend));
    }
    has_other_bearer(&parts.headers).then(|| no_jwt().answer(&parts.headers))
}

pub(super) fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(backend: &BrowserBackend) -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, backend.request_headers.clone()),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        (VARY, HeaderValue::from_static("Access-Control-Request-Method, Access-Control-Request-Headers")),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Whether an `Authorization` has a bearer token that is not an API token: a JWT or an unknown token. Parsed leniently,
/// because a match is refused.
fn has_other_bearer(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        let end = value.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(value.len());
        let (scheme, rest) = value.split_at(end);
        scheme.eq_ignore_ascii_case(b"bearer") && !rest.trim_ascii().starts_with(b"svc_")
    })
}

fn not_allowed() -> Problem {
    Problem::forbidden("this origin is not allowed").with_code("origin_not_allowed")
}

fn no_jwt() -> Problem {
    Problem::unauthorized("JSON web tokens are not accepted here: use the session cookie or an API token")
        .with_code("jwt_not_accepted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_api_token_passes_as_a_bearer() {
        let cases: &[(&[u8], bool)] = &[
            (b"Bearer svc_0123456789", false),
            (b"bearer  svc_0123456789", false),
            (b"Basic dXNlcjpwYXNz", false),
            (b"Negotiate abc", false),
            (b"Bearerx abc", false),
            (b"", false),
            (b"Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln", true),
            (b"BEARER eyJ", true),
            (b"Bearer", true),
            (b"Bearer ", true),
            (b"Bearer\teyJ", true),
            (b" Bearer eyJ", true),
            (b"Bearer SVC_0123", true),
            (b"Bearer xsvc_0123", true),
            (b"Bearer \"svc_0123\"", true),
            (b"Bearer, svc_0123", true),
            (b"Bearer \xff", true),
        ];
        for (value, expected) in cases {
            let headers = [(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap())].into_iter().collect();
            assert_eq!(has_other_bearer(&headers), *expected, "{:?}", String::from_utf8_lossy(value));
        }
        let two = ["Bearer svc_0123", "Bearer eyJ"].map(|text| (AUTHORIZATION, HeaderValue::from_static(text)));
        assert!(has_other_bearer(&two.into_iter().collect()));
    }
}
