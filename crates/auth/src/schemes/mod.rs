//! Credential schemes. Each checks a request for one kind of credential and returns the result.
//!
//! The session cookie is checked first, then the JWT bearer, then the schemes of plugins (API tokens) and of a host.
//! The [`Authenticator`](crate::schemes) calls them in that order and derives one identity from the results:
//!
//! - A credential that the caller chose to send (a header) has priority over one that the browser adds (a cookie): a
//!   later scheme that authenticates replaces an earlier result, including a session.
//! - A failed credential is ignored, unless its scheme specifies otherwise: an invalid `svc_` token discards the
//!   identity found before it.
//! - A cookie that the browser adds does not extend an identity that a host's own middleware put on the request, such
//!   as an embedded surface's grant.
//! - If a store fails, the request ends with 503 and does not count as anonymous.

mod authenticator;
mod bearer;
mod jwt;
mod session;
mod token;

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::Identity;
use gatewright_http::ClientAddr;
use http::HeaderMap;

pub(crate) use authenticator::Authenticator;
pub use bearer::bearer;
pub(crate) use jwt::JwtScheme;
pub(crate) use session::SessionScheme;
pub(crate) use token::TokenScheme;

use crate::assurance::Assurance;
use crate::session::AnySession;
use crate::users::BoxError;

/// One kind of credential.
#[async_trait]
pub trait Scheme: Send + Sync + 'static {
    /// Its name, for logs.
    fn name(&self) -> &'static str;

    /// Whether the request contains a credential of this kind. Called on every request, so it must not query a store or
    /// allocate.
    fn is_requested(&self, headers: &HeaderMap) -> bool;

    /// Checks the credential of the request.
    async fn authenticate(&self, offer: &Offer<'_>) -> Result<Outcome, SchemeUnavailable>;

    /// Whether a failure discards the identity that an earlier scheme found.
    fn failure_wipes(&self) -> bool {
        false
    }

    /// Whether browsers send it automatically, so that it must not extend an identity that a host has set.
    fn is_ambient(&self) -> bool {
        false
    }
}

/// The parts of a request that a scheme sees.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// The client address.
    pub client: ClientAddr,
    /// The full path of the request: a token of the authorization server is valid only at one resource.
    pub path: &'a str,
    /// Whether this is a later check of a request that was accepted before, as streams do on every heartbeat. Failures
    /// are not audited then.
    pub again: bool,
}

/// The result of a scheme.
#[derive(Debug)]
pub enum Outcome {
    /// The request has no credential of this kind.
    NotRequested,
    /// A valid credential.
    Authenticated(Authenticated),
    /// A credential that is invalid or no longer valid.
    Failed,
}

/// The owner of a valid credential.
#[derive(Debug, Clone, Default)]
pub struct Authenticated {
    /// The account.
    pub identity: Identity,
    /// Its session, if the credential was one.
    pub(crate) session: Option<AnySession>,
    /// How the caller authenticated, if the credential shows it.
    pub(crate) assurance: Option<Assurance>,
    /// Whether the credential is a token of the authorization server.
    pub(crate) is_delegated: bool,
    /// The state of the bearer token, if the request had one.
    pub(crate) bearer: Bearer,
}

/// The state of a request's bearer token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Bearer {
    /// There was none, or it was valid.
    #[default]
    NotRefused,
    /// It is expired, revoked or was never valid. A 401 says so (RFC 6750, section 3.1).
    Refused,
}

impl Authenticated {
    /// An identity from a credential that is not a session.
    pub fn new(identity: Identity) -> Self {
        Self { identity, ..Self::default() }
    }

    pub(crate) fn of_session(session: AnySession) -> Self {
        let assurance = Assurance::of_session(&session);
        Self { identity: session.identity(), session: Some(session), assurance, ..Self::default() }
    }

    pub(crate) fn with_assurance(self, assurance: Assurance) -> Self {
        Self { assurance: Some(assurance), ..self }
    }
}

/// A store of a scheme failed, so the result is unknown.
#[derive(Debug, thiserror::Error)]
#[error("a credential could not be checked: {0}")]
pub struct SchemeUnavailable(#[source] BoxError);

impl SchemeUnavailable {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

/// The schemes, in the order of their checks.
pub(crate) type Schemes = Vec<Arc<dyn Scheme>>;
