//! Credential schemes: each looks at a request for one kind of credential and says what it found.
//!
//! The session cookie comes first, then the JWT bearer, then what plugins bring (API tokens) and what a host adds. The
//! [`Authenticator`](crate::schemes) asks them in that order and makes one identity of the answers:
//!
//! - A credential that the caller chose to send (a header) counts more than one that the browser sends along (a
//!   cookie): a later scheme that authenticates replaces what was found before, session included.
//! - A failed credential is as good as none, but for schemes that say otherwise: a bad `svc_` token wipes the identity
//!   found before it.
//! - An identity that a host's own middleware put on the request, such as an embedded surface's grant, is not widened
//!   by the cookie that the same browser sends along.
//! - A store that cannot answer is not "nobody": the request ends with 503.

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

    /// Whether the request carries something of this kind at all. Asked on every request: no store, no allocation.
    fn is_requested(&self, headers: &HeaderMap) -> bool;

    /// Looks at what the request carries.
    async fn authenticate(&self, offer: &Offer<'_>) -> Result<Outcome, SchemeUnavailable>;

    /// Whether a failure wipes the identity that an earlier scheme found.
    fn failure_wipes(&self) -> bool {
        false
    }

    /// Whether browsers send it along unasked, so that it must not widen what a host has established.
    fn is_ambient(&self) -> bool {
        false
    }
}

/// What a request offers.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Where it comes from.
    pub client: ClientAddr,
    /// The path that it asks for, whole: a token of the authorization server is good at one resource alone.
    pub path: &'a str,
    /// Whether this is a later look at a request that passed before, as a stream takes on every heartbeat. Failures are
    /// not audited then.
    pub again: bool,
}

/// What a scheme found.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing of its kind.
    NotRequested,
    /// A good credential.
    Authenticated(Authenticated),
    /// A credential that is not, or no longer, good.
    Failed,
}

/// Who a credential belongs to.
#[derive(Debug, Clone, Default)]
pub struct Authenticated {
    /// Who.
    pub identity: Identity,
    /// Their session, if that is what the credential was.
    pub(crate) session: Option<AnySession>,
    /// How the caller proved who they are, if the credential tells.
    pub(crate) assurance: Option<Assurance>,
    /// Whether the credential is a token of the authorization server.
    pub(crate) is_delegated: bool,
    /// What became of a bearer token, if the request carried one.
    pub(crate) bearer: Bearer,
}

/// What became of a request's bearer token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Bearer {
    /// There was none, or it was good.
    #[default]
    NotRefused,
    /// It is expired, revoked or was never good. A 401 says so (RFC 6750, section 3.1).
    Refused,
}

impl Authenticated {
    /// An identity from a credential that is no session.
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

/// A store behind a scheme did not answer, so that nothing is known.
#[derive(Debug, thiserror::Error)]
#[error("a credential could not be checked: {0}")]
pub struct SchemeUnavailable(#[source] BoxError);

impl SchemeUnavailable {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

/// Schemes in the order in which they are asked.
pub(crate) type Schemes = Vec<Arc<dyn Scheme>>;
