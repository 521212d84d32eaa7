//! Sessions as arguments of handlers. The authentication middleware puts the resolved session into the request's
//! extensions; nothing here queries a store.

use axum::extract::FromRequestParts;
use gatewright_http::Problem;
use http::request::Parts;

use super::{AnySession, PendingSession, Session};

impl<S: Sync> FromRequestParts<S> for Session {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match parts.extensions.get::<AnySession>() {
            Some(AnySession::Full(session)) => Ok(session.clone()),
            Some(AnySession::Pending(_)) => Err(crate::problem::second_factor_required()),
            None => Err(crate::problem::no_session()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for PendingSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match parts.extensions.get::<AnySession>() {
            Some(AnySession::Pending(session)) => Ok(session.clone()),
            Some(AnySession::Full(_)) => {
                Err(Problem::conflict("the second factor of this session is not pending").with_code("not_pending"))
            }
            None => Err(crate::problem::no_session()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for AnySession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(crate::problem::no_session)
    }
}
