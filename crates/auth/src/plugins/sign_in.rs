//! The end of every sign-in: from a proof to the mint, the audit log, and the answer with its cookie.

use std::net::IpAddr;

use axum::Json;
use axum::response::{IntoResponse, Response};
use gatewright_base::UserId;
use gatewright_http::{Kind, Next};
use http::HeaderValue;
use http::header::SET_COOKIE;
use serde_json::{Value, json};

use crate::audit::AuditKind;
use crate::core::Core;
use crate::devices::{Browser, Devices};
use crate::guests;
use crate::plugins::profile::section::COMPLETE;
use crate::profiles::own_user;
use crate::screens::paths::with_next;
use crate::session::{Client, MintError, Minted, Proof, SessionStoreError};
use crate::users::UserSummary;
use crate::web::{Visitor, proved, redirect_next, see_other, with_session};

/// A signed-in user: their session, and the proof for issuing a JWT.
pub(crate) struct SignedIn {
    pub(crate) proof: Proof,
    pub(crate) minted: Minted,
    /// The cookie that makes the browser a known device, if no second factor is pending.
    device: Option<HeaderValue>,
}

#[cfg(feature = "oauth")]
impl SignedIn {
    /// Whether the second factor is still to be proven.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.minted, Minted::Pending(..))
    }
}

/// Passes a user who was proven by `method` to the mint.
pub(crate) async fn admit(
    core: &Core,
    proof: Proof,
    client: Client,
    browser: &Browser,
    method: &'static str,
) -> Result<SignedIn, MintError> {
    let guest = guest_before(core, browser).await;
    let minted = core.mint.mint(&proof, client.clone(), browser.replaces.as_ref()).await;
    admitted(core, proof, minted, &client, browser, (method, guest)).await
}

/// The same for a user who has proven both factors at once.
#[cfg(feature = "passkeys")]
pub(crate) async fn admit_verified(
    core: &Core,
    proof: Proof,
    client: Client,
    browser: &Browser,
    method: &'static str,
) -> Result<SignedIn, MintError> {
    let guest = guest_before(core, browser).await;
    let minted = core.mint.mint_verified(&proof, client.clone(), browser.replaces.as_ref()).await;
    admitted(core, proof, minted, &client, browser, (method, guest)).await
}

/// The guest whose session the sign-in replaces. The sign-in succeeds without it.
async fn guest_before(core: &Core, browser: &Browser) -> Option<UserId> {
    let guest = guests::of_browser(core, browser).await;
    guest.inspect_err(|error| tracing::warn!(%error, "cannot read which guest signed in")).ok()?.map(|guest| guest.id)
}

async fn admitted(
    core: &Core,
    proof: Proof,
    minted: Result<Minted, MintError>,
    client: &Client,
    browser: &Browser,
    (method, guest): (&'static str, Option<UserId>),
) -> Result<SignedIn, MintError> {
    let remote = client.address();
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
    let event = core.audit.event(kind).user(&proof.user().id).remote(remote).with("method", method);
    // So that a program can move the guest's records to the account.
    let event = match &guest {
        Some(guest) if *guest != proof.user().id => event.with("guest", guest.as_str()),
        Some(_) | None => event,
    };
    if let Err(unstored) = core.audit.store(event).await {
        // Nobody has its secret. If it cannot be removed, it is of no use either.
        if let Err(error) = core.sessions.remove(&proof.user().id, minted.id()).await {
            tracing::warn!(%error, "the session of a refused sign-in stays until it expires");
        }
        return Err(SessionStoreError::new(unstored).into());
    }
    let device = match &minted {
        Minted::Session(..) => Devices::remember(core, proof.user(), browser, client).await,
        Minted::Pending(..) => None,
    };
    Ok(SignedIn { proof, minted, device })
}

/// Audits the sign-in to an account that an operator has disabled. The caller is not told why it failed.
pub(crate) async fn refused_disabled(core: &Core, user: &UserId, remote: Option<IpAddr>, method: &'static str) {
    let event = core.audit.event(AuditKind::LoginFailed).user(user).remote(remote);
    core.audit.record(event.with("reason", "the account is disabled").with("method", method)).await;
}

/// JSON for scripts, for people a redirect to `next`, or to the second factor's screen; both with the cookie.
pub(crate) async fn answer(
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
            None => redirect_next(core, next, "/"),
        }
    } else {
        Json(body(core, visitor, &signed_in.proof, pending).await).into_response()
    };
    let answer = with_session(answer, core, signed_in.minted.id(), signed_in.minted.secret());
    proved(with_device(answer, signed_in.device.as_ref()))
}

/// [`answer`] after a sign-in that may have created the account: a form asks for required fields of its profile first.
pub(crate) async fn answer_new(
    core: &Core,
    visitor: &Visitor,
    kind: Kind,
    signed_in: &SignedIn,
    next: Option<&Next>,
) -> Response {
    let is_pending = matches!(signed_in.minted, Minted::Pending(..));
    let asks = match &core.profiles {
        Some(profiles) if kind.is_form() && !is_pending && core.screens.get().is_some() => {
            let missing = profiles.missing_inputs(&signed_in.proof.user().id).await;
            // The sign-in is complete. The page asks at the next one.
            missing
                .inspect_err(|error| tracing::warn!(%error, "cannot read the profile of who signed in"))
                .is_ok_and(|missing| !missing.is_empty())
        }
        _ => false,
    };
    let page = asks.then(|| core.redirects.next(&with_next(COMPLETE, next))).flatten();
    answer(core, visitor, kind, signed_in, page.as_ref().or(next)).await
}

/// Makes the browser a known device.
pub(crate) fn with_device(mut answer: Response, cookie: Option<&HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        answer.headers_mut().append(SET_COOKIE, cookie.clone());
    }
    answer
}

/// `{user, token}`; while a second factor is pending, `{user, two_factor_required}` without a token. Callers who use
/// only cookies get no token either.
pub(crate) async fn body(core: &Core, visitor: &Visitor, proof: &Proof, needs_second_factor: bool) -> Value {
    let mut body = json!({ "user": UserSummary::from(proof.user()) });
    if !needs_second_factor && core.profiles.is_some() {
        match own_user(core.profiles.as_ref(), proof.user()).await {
            Ok(user) => body["user"] = user,
            // The sign-in is complete, and `GET /me` returns the rest.
            Err(error) => tracing::warn!(%error, "cannot read the profile of who signed in"),
        }
    }
    if needs_second_factor {
        body["two_factor_required"] = true.into();
    } else if core.config.tokens_in_responses && !visitor.cookie_only {
        body["token"] = core.jwts.issue(proof.user(), proof.at()).expose().into();
    }
    body
}
