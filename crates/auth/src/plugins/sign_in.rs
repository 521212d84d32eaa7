//! The end of every way in: from a proof to the mint, the audit, and the answer with its cookie.

use std::net::IpAddr;

use axum::Json;
use axum::response::{IntoResponse, Response};
use gatewright_base::UserId;
use gatewright_http::{Kind, Next};
use serde_json::{Value, json};

use crate::Core;
use crate::audit::AuditKind;
use crate::plugins::web::{Visitor, go_on, see_other, with_session};
use crate::screens::sign_in::with_next;
use crate::session::{Client, MintError, Minted, Proof, SessionSecret};
use crate::users::UserSummary;

/// Somebody signed in: their session, and the proof that a JWT is issued on.
pub(crate) struct SignedIn {
    pub(crate) proof: Proof,
    pub(crate) minted: Minted,
}

/// Takes somebody proven by `method` to the mint.
pub(crate) async fn admit(
    core: &Core,
    proof: Proof,
    client: Client,
    replaces: Option<&SessionSecret>,
    method: &'static str,
) -> Result<SignedIn, MintError> {
    let remote = client.address();
    let minted = core.mint.mint(&proof, client, replaces).await;
    admitted(core, proof, minted, remote, method).await
}

/// The same for somebody who has proven both factors at once.
#[cfg(feature = "passkeys")]
pub(crate) async fn admit_verified(
    core: &Core,
    proof: Proof,
    client: Client,
    replaces: Option<&SessionSecret>,
    method: &'static str,
) -> Result<SignedIn, MintError> {
    let remote = client.address();
    let minted = core.mint.mint_verified(&proof, client, replaces).await;
    admitted(core, proof, minted, remote, method).await
}

async fn admitted(
    core: &Core,
    proof: Proof,
    minted: Result<Minted, MintError>,
    remote: Option<IpAddr>,
    method: &'static str,
) -> Result<SignedIn, MintError> {
    let minted = match minted {
        Err(MintError::Disabled) => {
            refused_disabled(core, &proof.user().id, remote, method).await;
            return Err(MintError::Disabled);
        }
        minted => minted?,
    };
    let kind = match &minted {
        Minted::Session(..) => AuditKind::LoginSucceeded,
        Minted::Pending(..) => AuditKind::LoginPendingTwoFactor,
    };
    core.audit.record(core.audit.event(kind).user(&proof.user().id).remote(remote).with("method", method)).await;
    Ok(SignedIn { proof, minted })
}

/// Audits the sign-in to an account that an operator has disabled. Nobody else is told why it failed.
pub(crate) async fn refused_disabled(core: &Core, user: &UserId, remote: Option<IpAddr>, method: &'static str) {
    let event = core.audit.event(AuditKind::LoginFailed).user(user).remote(remote);
    core.audit.record(event.with("reason", "the account is disabled").with("method", method)).await;
}

/// JSON for scripts, for people a redirect to `next`, or to the second factor's screen; both with the cookie.
pub(crate) fn answer(
    core: &Core,
    visitor: &Visitor,
    kind: Kind,
    signed_in: &SignedIn,
    next: Option<&Next>,
) -> Response {
    let pending = matches!(signed_in.minted, Minted::Pending(..));
    let answer = if kind.is_form() {
        match core.screens.get().and_then(|screens| screens.second_factor).filter(|_| pending) {
            Some(screen) => see_other(&with_next(screen, next)),
            None => go_on(core, next, "/"),
        }
    } else {
        Json(body(core, visitor, &signed_in.proof, pending)).into_response()
    };
    with_session(answer, core, signed_in.minted.id(), signed_in.minted.secret())
}

/// `{user, token}`; while a second factor is owed `{user, two_factor_required}` and no token. Callers that hold cookies
/// alone get none either.
pub(crate) fn body(core: &Core, visitor: &Visitor, proof: &Proof, owes_second_factor: bool) -> Value {
    let mut body = json!({ "user": UserSummary::from(proof.user()) });
    if owes_second_factor {
        body["two_factor_required"] = true.into();
    } else if core.config.tokens_in_responses && !visitor.cookie_only {
        body["token"] = core.jwts.issue(proof.user(), proof.at()).expose().into();
    }
    body
}
