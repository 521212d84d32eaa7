//! Sessions that may use some routes only: of operators who act as users, and of guests.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use gatewright_http::Problem;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use http::Method;
use tower::Layer;

use crate::guests;
use crate::session::AnySession;

type Routes = &'static [(Method, &'static str)];

/// The routes that an operator who acts as a user may use: method, and path below the base path or, of a page, the whole path.
/// What is listed reads, ends the session, signs somebody else in, or makes what ends with the session.
const FOR_OPERATORS: Routes = &[
    (Method::GET, "/me"),
    (Method::POST, "/logout"),
    (Method::GET, "/sessions"),
    (Method::GET, "/devices"),
    (Method::GET, "/accounts"),
    (Method::GET, "/tokens"),
    (Method::GET, "/passkeys"),
    (Method::GET, "/tenants"),
    (Method::GET, "/tenants/{id}/members"),
    // A stream asks for the credential behind its ticket again.
    (Method::POST, "/stream-ticket"),
    (Method::GET, "/language"),
    (Method::POST, "/login"),
    (Method::GET, "/login"),
    (Method::GET, "/account"),
    (Method::GET, "/oauth2/end_session"),
    (Method::POST, "/oauth2/end_session"),
    // An access token decides, and not the session.
    (Method::GET, "/oauth2/userinfo"),
    (Method::POST, "/oauth2/userinfo"),
];

/// The routes that a guest may use: those that read or end what is the guest's own, API tokens, which end when the guest becomes a
/// full account, and every way to sign in or to register. A guest has neither an address nor a password, so it gets no credential
/// that outlives it, gives no consent, and invites nobody.
const FOR_GUESTS: Routes = &[
    (Method::GET, "/me"),
    (Method::PATCH, "/me"),
    (Method::POST, "/logout"),
    (Method::GET, "/sessions"),
    (Method::DELETE, "/sessions"),
    (Method::DELETE, "/sessions/{id}"),
    (Method::GET, "/devices"),
    (Method::GET, "/accounts"),
    (Method::GET, "/tokens"),
    (Method::POST, "/tokens"),
    (Method::DELETE, "/tokens/{id}"),
    (Method::GET, "/passkeys"),
    (Method::GET, "/tenants"),
    (Method::POST, "/stream-ticket"),
    (Method::POST, "/export"),
    (Method::POST, "/delete-account"),
    (Method::GET, "/language"),
    (Method::GET, "/account"),
    (Method::GET, "/oauth2/end_session"),
    (Method::POST, "/oauth2/end_session"),
    // An access token decides, and not the session.
    (Method::GET, "/oauth2/userinfo"),
    (Method::POST, "/oauth2/userinfo"),
    (Method::POST, "/anonymous"),
    (Method::POST, "/register"),
    (Method::GET, "/register"),
    (Method::POST, "/login"),
    (Method::GET, "/login"),
    (Method::POST, "/magic-link/send"),
    (Method::GET, "/magic-link/verify"),
    (Method::POST, "/magic-link/verify"),
    (Method::POST, "/email-code/send"),
    (Method::POST, "/email-code/verify"),
    (Method::GET, "/oauth/{provider}"),
    (Method::GET, "/oauth/{provider}/callback"),
    (Method::POST, "/oauth/{provider}/callback"),
    (Method::POST, "/passkeys/login/options"),
    (Method::POST, "/passkeys/login"),
    (Method::GET, "/invitations/{token}"),
    (Method::GET, "/invitations/accept"),
    (Method::GET, "/verify-email"),
    (Method::POST, "/verify-email"),
    // Links in mails to another account of the same person.
    (Method::GET, "/change-email/confirm"),
    (Method::POST, "/change-email/confirm"),
    (Method::GET, "/change-email/undo"),
    (Method::POST, "/change-email/undo"),
    (Method::GET, "/forgot-password"),
    (Method::POST, "/forgot-password"),
    (Method::GET, "/reset-password"),
    (Method::POST, "/reset-password"),
];

/// Refuses such sessions on every other route of authentication: a new route is closed to them until it is listed.
#[derive(Debug, Clone)]
pub(crate) struct RestrictedLayer {
    base_path: Arc<str>,
}

impl RestrictedLayer {
    pub(crate) fn new(base_path: &str) -> Self {
        Self { base_path: base_path.into() }
    }

    /// Why the session of a request may not use its route.
    fn refusal(&self, request: &Request) -> Option<Refusal> {
        let session = request.extensions().get::<AnySession>()?;
        let (routes, refusal) = if session.impersonated_by().is_some() {
            (FOR_OPERATORS, Refusal::Impersonated)
        } else if guests::of_session(Some(session)).is_some() {
            (FOR_GUESTS, Refusal::Guest)
        } else {
            return None;
        };
        // Without a route there is nothing to refuse.
        let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str)?;
        let path = path.strip_prefix(&*self.base_path).filter(|path| path.starts_with('/')).unwrap_or(path);
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let is_allowed = routes.iter().any(|(allowed, route)| allowed == method && *route == path);
        (!is_allowed).then_some(refusal)
    }
}

#[derive(Debug, Clone, Copy)]
enum Refusal {
    Impersonated,
    Guest,
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Impersonated => {
                Self::forbidden("an operator who acts as a user cannot do this").with_code("impersonated")
            }
            Refusal::Guest => Self::forbidden("a guest cannot do this: register first").with_code("guest"),
        }
    }
}

impl<S> Layer<S> for RestrictedLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for RestrictedLayer {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        match self.refusal(&request) {
            None => inner.pass(request),
            Some(refusal) => answer(async move { Problem::from(refusal).answer_link(request.headers()) }),
        }
    }
}
