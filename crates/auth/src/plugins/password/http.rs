use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use gatewright_base::{Credential, Identity, JsonCase, Secret};
use gatewright_http::{Caller, Kind, Next, Problem, Submission};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::change::ChangeError;
use super::flow::{Credentials, Flow, LoginError, Refused, RegisterError, Registered};
use super::registration::{self, Registration};
use super::screen::{self, Form, Typed};
use crate::devices::Browser;
use crate::guests;
use crate::plugins::invitations;
use crate::plugins::sign_in;
use crate::problem;
use crate::profiles::own_user;
use crate::screens::mailed;
use crate::session::{AnySession, Proof, Session};
use crate::single_use::Purpose;
use crate::users::UserSummary;
use crate::web::{
    By, Case, Visitor, guarded, guarded_proof, not_counted, redirect_next, with_cookie, with_session, without_session,
};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = &flow.core;
    Router::new()
        .route("/register", guarded(core, Some(&flow.register_by_address), post(register)))
        .route("/login", guarded_proof(core, &flow.login_by_address, post(login)))
        .route("/logout", guarded(core, None, post(logout)))
        .route("/change-password", guarded(core, None, post(change_password)))
        .route("/me", get(me))
        .with_state(flow)
}

/// Email and password. Other fields are ignored.
#[derive(serde::Deserialize)]
struct Body {
    email: String,
    password: Secret,
}

#[derive(serde::Deserialize)]
struct NewPassword {
    current_password: Secret,
    password: Secret,
}

impl Body {
    fn credentials(&self) -> Credentials<'_> {
        Credentials { email: &self.email, password: &self.password }
    }
}

async fn register(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    Case(case): Case,
    submission: Submission<Registration>,
) -> Response {
    let email = submission.value.typed_email().to_owned();
    let invite = submission.value.typed_invite();
    let inputs = submission.value.typed_inputs().clone();
    let (kind, next) = (submission.kind, submission.next.as_ref());
    let sent = Sent { kind, email: &email, invite: invite.as_ref(), inputs: Some(&inputs), next };
    let profiles = flow.core.profiles.as_ref();
    let accepted = match submission.value.check(&flow.core.passwords, profiles, kind.is_form()) {
        Ok(accepted) => accepted,
        Err(wrong) => {
            let problem = registration::problem(&wrong, case);
            let problem = if kind.is_form() { registration::in_words(problem, profiles) } else { problem };
            return failed(&flow, Form::Register, &visitor, &sent, problem).await;
        }
    };
    let browser = Browser::of(&flow.core, &visitor.headers);
    let guest = match guests::of_browser(&flow.core, &browser).await {
        Ok(guest) => guest,
        Err(error) => return failed(&flow, Form::Register, &visitor, &sent, error.into()).await,
    };
    let registered = flow.register(accepted, guest.as_ref(), &visitor.client, kind.is_form()).await;
    let Registered { proof, code } = match registered {
        Ok(registered) => registered,
        Err(error) => return failed(&flow, Form::Register, &visitor, &sent, error.into()).await,
    };
    if flow.core.config.require_verified_email && !proof.user().email_verified {
        let answer = unverified(&flow, &visitor, &proof, &sent, case);
        return code.into_iter().fold(answer, with_cookie);
    }
    // The session of a guest has ended: the account gets one, whatever asked for it.
    if kind.is_form() || guest.is_some() {
        return match flow.admit(proof, visitor.client.clone(), &browser).await {
            Ok(signed_in) => {
                sign_in::answer(&flow.core, &visitor, submission.kind, &signed_in, submission.next.as_ref()).await
            }
            Err(error) => failed(&flow, Form::Register, &visitor, &sent, error.into()).await,
        };
    }
    match flow.needs_second_factor(proof.user()).await {
        Ok(owes) => Json(sign_in::body(&flow.core, &visitor, &proof, owes).await).into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

async fn login(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Body>) -> Response {
    let browser = Browser::of(&flow.core, &visitor.headers);
    let client = visitor.client.clone();
    match flow.login(&submission.value.credentials(), client, &browser, submission.kind.is_form()).await {
        Ok(signed_in) => {
            sign_in::answer(&flow.core, &visitor, submission.kind, &signed_in, submission.next.as_ref()).await
        }
        // The limit of the account refuses before the password is tested: no failure of this address.
        Err(LoginError::Denied(denied)) => not_counted(denied.into_response()),
        Err(LoginError::Refused(error)) => {
            let (kind, next) = (submission.kind, submission.next.as_ref());
            let sent = Sent { kind, email: &submission.value.email, invite: None, inputs: None, next };
            let cookies = match &error {
                Refused::EmailUnverified(user, code) => [Some(flow.core.password_marker.note(user)), code.clone()],
                _ => [None, None],
            };
            let answer = failed(&flow, Form::Login, &visitor, &sent, error.into()).await;
            cookies.into_iter().flatten().fold(answer, with_cookie)
        }
    }
}

/// Ends the session of the cookie, if there is one, and removes the cookie in any case.
async fn logout(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<()>) -> Response {
    if let Some(secret) = flow.core.cookie.read(&visitor.headers)
        && let Err(error) = flow.core.sign_out(&secret, &visitor.client).await
    {
        return submission.kind.refuse(error.into());
    }
    let answer = if submission.kind.is_form() {
        redirect_next(&flow.core, submission.next.as_ref(), "/")
    } else {
        StatusCode::NO_CONTENT.into_response()
    };
    without_session(answer, &flow.core)
}

/// Sets a new password for a user who knows the current one. Only for a session, which is replaced by a new one.
async fn change_password(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<NewPassword>,
) -> Response {
    let kind = submission.kind;
    let NewPassword { current_password, password } = submission.value;
    let (id, secret) =
        match flow.change.change(&session, &current_password, password, &visitor.headers, &visitor.client).await {
            Ok(renewed) => renewed,
            Err(ChangeError::Denied(denied)) => return denied.into_response(),
            Err(error) => return kind.refuse(error.into()),
        };
    let answer = if kind.is_form() {
        redirect_next(&flow.core, submission.next.as_ref(), "/")
    } else {
        Json(json!({ "updated": true })).into_response()
    };
    with_session(answer, &flow.core, &id, &secret)
}

/// The caller by session or JWT, with their current data.
async fn me(
    State(flow): State<Arc<Flow>>,
    Caller(identity): Caller,
    session: Option<Extension<AnySession>>,
    Case(case): Case,
) -> Result<Json<Map<String, Value>>, Problem> {
    let principal = match identity {
        Identity::Anonymous => return Err(problem::no_session()),
        Identity::Pending(_) => return Err(problem::second_factor_required()),
        Identity::Known(principal) => principal,
    };
    let own = matches!(principal.credential, Credential::Session { .. } | Credential::Jwt { .. });
    let id = principal.user_id().filter(|_| own).ok_or_else(problem::no_session)?;
    let found;
    let user = match &session {
        // Authentication has just read the user with the session.
        Some(Extension(AnySession::Full(session))) if session.user().id == *id => session.user(),
        _ => {
            found = flow.core.users.store.find_by_id(id).await?;
            &found
        }
    };
    let two_factor = flow.core.mint.has_second_factor(id).await.map_err(|error| problem::store_failed(&*error))?;
    let mut body = Map::new();
    body.insert("user".to_owned(), own_user(flow.core.profiles.as_ref(), user).await?);
    body.insert(case.spell("email_verified"), user.email_verified.into());
    body.insert(case.spell("two_factor_enabled"), two_factor.into());
    if let Some(operator) = principal.impersonated_by() {
        body.insert(case.spell("impersonated_by"), operator.as_str().into());
    }
    Ok(Json(body))
}

/// An account that signs in once its mailbox is proven: nothing is issued, and the browser is known again when it opens the
/// link.
fn unverified(flow: &Flow, visitor: &Visitor, proof: &Proof, sent: &Sent<'_>, case: JsonCase) -> Response {
    let answer = if sent.kind.is_form() {
        mailed::check_mail(
            &flow.core,
            visitor,
            Purpose::EmailVerification,
            Some(proof.user().email.as_str()),
            sent.next,
        )
    } else {
        Json(json!({ "user": UserSummary::from(proof.user()), (case.spell("email_verification_required")): true }))
            .into_response()
    };
    with_cookie(answer, flow.core.password_marker.note(proof.user()))
}

/// The values that a form keeps when it is shown again.
struct Sent<'a> {
    kind: Kind,
    email: &'a str,
    invite: Option<&'a Secret>,
    /// The fields of the profile.
    inputs: Option<&'a BTreeMap<String, String>>,
    next: Option<&'a Next>,
}

/// A failure in the caller's format: JSON for scripts, the form again for browsers.
async fn failed(flow: &Flow, form: Form, visitor: &Visitor, sent: &Sent<'_>, problem: Problem) -> Response {
    if !sent.kind.is_form() {
        return problem.into_response();
    }
    let tenant = match sent.invite {
        Some(invite) => invited_to(flow, invite).await,
        None => None,
    };
    let inputs = sent.inputs;
    let typed = Typed { email: sent.email, invite: sent.invite, tenant: tenant.as_deref(), signed_in: None, inputs };
    screen::failed(&flow.core, form, problem, visitor, typed, sent.next)
}

/// The name of an open invitation's tenant. The form also works without it.
async fn invited_to(flow: &Flow, invite: &Secret) -> Option<String> {
    let invitations = invitations::Flow::new(&flow.core)?;
    let tenant = invitations.find(invite).await.ok()??.tenant?;
    invitations.tenant_name(&tenant).await.ok()
}

impl From<RegisterError> for Problem {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Hash(error) => error.into(),
            RegisterError::Users(error) => error.into(),
            RegisterError::Policy(error) => error.into(),
            RegisterError::Guest(error) => error.into(),
            RegisterError::Invitation(error) => error.into(),
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            // Only callers that count no attempt come here with it.
            ChangeError::Denied(denied) => denied.into(),
            ChangeError::WrongPassword => Self::unauthorized(error.to_string()).with_code("invalid_credentials"),
            ChangeError::NoPassword => Self::conflict(error.to_string()).with_code("no_password"),
            ChangeError::Weak(error) => error.into(),
            ChangeError::StepUp(error) => error.into(),
            ChangeError::Overloaded(error) => error.into(),
            ChangeError::Hash(error) => error.into(),
            ChangeError::Users(error) => error.into(),
            ChangeError::Account(error) => problem::store_failed(&error),
            ChangeError::Mint(error) => error.into(),
        }
    }
}

impl From<Refused> for Problem {
    fn from(error: Refused) -> Self {
        match error {
            Refused::InvalidCredentials => problem::invalid_credentials(),
            Refused::EmailUnverified(..) => problem::email_unverified(),
            Refused::Overloaded(error) => error.into(),
            Refused::Users(error) => error.into(),
            Refused::Mint(error) => error.into(),
        }
    }
}
