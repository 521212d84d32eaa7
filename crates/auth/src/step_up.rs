//! Step-up authentication: routes that require the second factor from users who have one.
//!
//! A session that began before its user enrolled a second factor stays valid, and another person may use it in an open
//! browser. Sensitive routes therefore require that the second factor was proven in the same session: [`require`]
//! checks this for this crate's routes, the layer [`StepUpLayer`] for a host's.

use std::sync::Arc;

use axum::extract::Request;
use gatewright_base::{Credential, Identity, Subject};
use gatewright_http::Problem;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use tower::Layer;

use crate::core::Core;
use crate::problem::{no_session, second_factor_required, store_failed};
use crate::session::Session;
use crate::users::BoxError;

/// Why a session does not pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepUpError {
    /// The user has a second factor, which was not proven in this session.
    #[error("two-factor verification required")]
    Required,
    /// Reading whether its user has one failed.
    #[error("the second factor could not be looked up: {0}")]
    Lookup(#[source] BoxError),
}

/// Passes sessions in which the second factor was proven, and those of users who have none.
pub(crate) async fn require(core: &Core, session: &Session) -> Result<(), StepUpError> {
    if session.two_factor_verified() {
        return Ok(());
    }
    match core.mint.has_second_factor(&session.user().id).await {
        Ok(false) => Ok(()),
        Ok(true) => Err(StepUpError::Required),
        Err(error) => Err(StepUpError::Lookup(error)),
    }
}

/// Guards routes: users with a second factor pass only with a session in which it was proven, and get 403
/// `two-factor verification required` otherwise. For users without one, and for service accounts, it does nothing.
/// From [`Auth::step_up`](crate::Auth::step_up).
///
/// A JWT, an API token or a grant does not prove a second factor, so those of enrolled users are refused. An anonymous
/// caller gets 401. Put the guard inside [`Auth::middleware`](crate::Auth::middleware).
#[derive(Clone)]
pub struct StepUpLayer(pub(crate) Arc<Core>);

impl<S> Layer<S> for StepUpLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for StepUpLayer {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let (core, inner) = (self.0.clone(), inner.take());
        answer(async move {
            let identity = request.extensions().get::<Identity>().cloned().unwrap_or_default();
            match pass(&core, &identity).await {
                Ok(()) => inner.call(request).await,
                Err(problem) => problem.answer(request.headers()),
            }
        })
    }
}

async fn pass(core: &Core, identity: &Identity) -> Result<(), Problem> {
    let principal = match identity {
        Identity::Anonymous => return Err(no_session()),
        Identity::Pending(_) => return Err(second_factor_required()),
        Identity::Known(principal) => principal,
    };
    let Subject::User(user) = &principal.subject else { return Ok(()) };
    if matches!(principal.credential, Credential::Session { two_factor_verified: true, .. }) {
        return Ok(());
    }
    match core.mint.has_second_factor(user).await {
        Ok(false) => Ok(()),
        Ok(true) => Err(second_factor_required()),
        Err(error) => Err(store_failed(&*error)),
    }
}

impl From<StepUpError> for Problem {
    fn from(error: StepUpError) -> Self {
        match error {
            StepUpError::Required => second_factor_required(),
            StepUpError::Lookup(error) => store_failed(&*error),
        }
    }
}

impl std::fmt::Debug for StepUpLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StepUpLayer")
    }
}
