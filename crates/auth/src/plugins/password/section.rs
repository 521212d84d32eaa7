use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::{ChangeError, ChangePassword};
use crate::screens::PasswordRule;
use crate::screens::account::{Account, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::screens::mailed::FORGOT_PATH;
use crate::web::{Visitor, guarded, with_session};

/// The form to change the password, for a user who knows the current one.
pub(crate) struct PasswordSection {
    flow: Arc<ChangePassword>,
}

#[derive(Serialize)]
struct Context<'a> {
    password_set: bool,
    stepped_up: bool,
    email: &'a str,
    action: String,
    forgot: &'a str,
    password_rule: PasswordRule,
    csrf: Option<&'a str>,
    /// Whether its form was refused, and is shown again.
    trouble: bool,
    next: Option<&'a str>,
}

#[derive(serde::Deserialize)]
struct Body {
    current_password: Secret,
    password: Secret,
}

impl PasswordSection {
    pub(crate) fn new(flow: Arc<ChangePassword>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for PasswordSection {
    fn place(&self) -> Place {
        Place::Password
    }

    fn anchor(&self) -> &'static str {
        "password"
    }

    fn heading(&self) -> &'static str {
        "account.password.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("password-changed", "account.password.changed")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        if !self.flow.can_set_passwords() {
            return Ok(None);
        }
        let user = visit.session.user();
        let context = Context {
            password_set: user.password_set,
            stepped_up: visit.stepped_up,
            email: user.email.as_str(),
            action: format!("{PATH}/password#{}", self.anchor()),
            forgot: FORGOT_PATH,
            password_rule: self.flow.rule(),
            csrf: visit.csrf,
            trouble: visit.problem.is_some(),
            next: None,
        };
        fragment("account/password.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let change = guarded(&account.core, None, post(change));
        Router::new().route("/account/password", change).with_state(SectionState::new(self, account))
    }
}

async fn change(
    State(state): State<SectionState<PasswordSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<Body>,
) -> Response {
    let Body { current_password, password } = submission.value;
    match state.section.flow.change(&owner.0, &current_password, password, &visitor.headers, &visitor.client).await {
        Ok((id, secret)) => with_session(state.done("password-changed"), &state.account.core, &id, &secret),
        Err(ChangeError::Denied(denied)) => denied.into_response(),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}
