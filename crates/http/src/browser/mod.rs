//! The browser backend, for a single-page application on another origin that signs in by cookie.
//!
//! One [`BrowserBackend`] holds all of its HTTP layers, and [`BrowserBackend::install`] puts them around a router in
//! the right order. A request passes:
//!
//! 1. [`BrowserBackend::guard`], on the API prefix and the auth base path. An `Origin` that is neither the service's
//!    own nor allowed is refused with 403; a preflight of an allowed one is answered; a bearer that is not an API token
//!    is refused with 401, with or without a cookie. Answers have CORS headers for exactly the requesting origin, and
//!    always `Vary: Origin`, so that caches do not share answers between origins.
//! 2. The host's own session middleware.
//! 3. [`Csrf`], its cookie `__Host-` and `Secure` in any case. Only the logout form needs no token: it may be part of a
//!    static page, and the cross-site guard of the logout handler refuses other sites.
//!
//! Requests of the surface have [`CookieOnly`], so that sign-in and registration return no JWT.
//!
//! `Origin: null` is refused even if the browser calls the request same-origin. Pages that never send a referrer send
//! it with their own forms; `Referrer-Policy: same-origin`, which [`security_headers`](crate::layers::security_headers)
//! sets, does not have this effect.

mod allowed;
mod any_origin;
mod guard;
mod surface;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::Route;
use http::{HeaderName, HeaderValue, Method};
use tower::{Layer, Service};

use crate::Origin;
use crate::csrf::Csrf;
use surface::Surface;

pub use allowed::{AllowedOrigins, InvalidAllowedOrigin, OriginFault};
pub use any_origin::{AnyOrigin, FromAnyOrigin, OpenPath};
pub use guard::BrowserGuard;

/// Headers that a preflight allows a page to send, in addition to those that any page may send.
const REQUEST_HEADERS: &str = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Tus-Resumable, \
     Upload-Checksum, Upload-Length, Upload-Metadata, Upload-Offset, X-API-Key, X-CSRF-Token, X-Request-Id, X-SSE-Slow, X-Tenant-ID";

/// The configuration of the browser backend, which creates its layers.
///
/// ```
/// use axum::Router;
/// use axum::extract::Request;
/// use axum::middleware::{Next, from_fn};
/// use axum::routing::get;
/// use gatewright_base::{Ambient, Secret};
/// use gatewright_http::csrf::csrf_token;
/// use gatewright_http::{AllowedOrigins, BrowserBackend, Csrf, CsrfBinding, cookies};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let allowed = AllowedOrigins::parse(&["https://app.example.com"])?;
/// let backend = BrowserBackend::new("https://api.example.com".parse()?, allowed)?;
/// let csrf = Csrf::new(&Secret::new("at least thirty-two bytes of anything"), Ambient::system())?;
/// let routes = Router::new()
///     .route("/api/posts", get(async || "posts"))
///     .route("/auth/csrf", get(csrf_token));
/// let sessions = from_fn(async |mut request: Request, next: Next| {
///     if let Some(id) = cookies::read(request.headers(), "__Host-session") {
///         request.extensions_mut().insert(CsrfBinding::session(id)); // once the session is looked up
///     }
///     next.run(request).await
/// });
/// let app: Router = backend.install(routes, sessions, csrf);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct BrowserBackend {
    public: Origin,
    allowed: AllowedOrigins,
    surface: Surface,
    request_headers: HeaderValue,
    /// Paths to which pages of other sites post.
    posted: Vec<String>,
}

/// A public URL for which browsers do not store `Secure` cookies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the browser backend needs HTTPS, in dev mode too: {0} is neither https nor a loopback host")]
pub struct InsecureOrigin(pub Origin);

/// In the extensions of a request: sign-in and registration answer it with a cookie and never with a JWT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieOnly;

impl BrowserBackend {
    /// The posture for the service at `public` and the pages of `allowed`. The API prefix is `/api`, the auth base
    /// path `/auth`.
    pub fn new(public: Origin, allowed: AllowedOrigins) -> Result<Self, InsecureOrigin> {
        if !public.is_https() && !public.is_loopback() {
            return Err(InsecureOrigin(public));
        }
        let surface = Surface { api_prefix: "/api".to_owned(), auth_base: "/auth".to_owned(), others: Vec::new() };
        let request_headers = HeaderValue::from_static(REQUEST_HEADERS);
        Ok(Self { public, allowed, surface, request_headers, posted: Vec::new() })
    }

    /// Guards `path` and everything below it as the API. An empty path guards everything.
    pub fn api_prefix(mut self, path: impl Into<String>) -> Self {
        self.surface.api_prefix = path.into();
        self
    }

    /// Guards one more path and everything below it.
    pub fn also(mut self, path: impl Into<String>) -> Self {
        self.surface.others.push(path.into());
        self
    }

    /// Where the auth routes are.
    pub fn auth_base(mut self, path: impl Into<String>) -> Self {
        self.surface.auth_base = path.into();
        self
    }

    /// Lets pages of allowed origins send one more header.
    pub fn allow_header(mut self, name: &HeaderName) -> Self {
        let list = [self.request_headers.as_bytes(), b", ", name.as_str().as_bytes()].concat();
        self.request_headers = HeaderValue::from_bytes(&list).expect("header names, commas and spaces are a value");
        self
    }

    /// Lets pages of any origin post to exactly this path. Its handler must know by other means who began what they end. No page
    /// can read its answer.
    pub fn cross_site_post(mut self, path: impl Into<String>) -> Self {
        self.posted.push(path.into());
        self
    }

    /// The outermost layer: origins, preflights, and no JWTs.
    pub fn guard(&self) -> BrowserGuard {
        BrowserGuard(Arc::new(self.clone()))
    }

    /// `csrf` as the posture wants it: its cookie `Secure` always, and no token needed for a POST to exactly
    /// `{auth_base}/logout`.
    pub fn csrf(&self, csrf: Csrf) -> Csrf {
        csrf.always_secure().exempt(Method::POST, format!("{}/logout", self.surface.auth_base.trim_end_matches('/')))
    }

    /// Puts the whole posture around `router`: the guard, then `sessions` (which resolves the session and puts a
    /// [`CsrfBinding`](crate::CsrfBinding) into the request's extensions), then `csrf`, then the routes.
    pub fn install<S, L>(&self, router: Router<S>, sessions: L, csrf: Csrf) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request, Response: IntoResponse + 'static, Error: Into<Infallible> + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        router.layer(self.csrf(csrf)).layer(sessions).layer(self.guard())
    }
}
