use std::sync::Arc;

use axum::extract::FromRequestParts;
use gatewright_base::{Credential, Identity};
use gatewright_http::{ContentType, Problem, cross_site};
use http::request::Parts;

use super::endpoint::Endpoint;

/// A write without a body. A page of another site, also of a sibling site, can send one with the session's cookie and
/// without a preflight. So if the caller is known by a session, the browser must report a page of this site.
///
/// A type that needs a preflight passes, and so does a caller with another credential, which no browser sends by itself.
pub(super) struct OwnPage;

impl FromRequestParts<Arc<Endpoint>> for OwnPage {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, endpoint: &Arc<Endpoint>) -> Result<Self, Problem> {
        if is_by_session(parts) && ContentType::of(&parts.headers).needs_no_preflight() {
            cross_site::check_own_site(parts, endpoint.entities.public_origin())?;
        }
        Ok(Self)
    }
}

fn is_by_session(parts: &Parts) -> bool {
    match parts.extensions.get::<Identity>() {
        Some(Identity::Known(principal)) => matches!(principal.credential, Credential::Session { .. }),
        Some(Identity::Pending(_) | Identity::Anonymous) | None => false,
    }
}
