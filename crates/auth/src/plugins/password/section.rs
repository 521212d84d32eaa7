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
use crate::plugins::web::{Visitor, guarded, with_session};
use crate::screens::PasswordRule;
use crate::screens::account::{Account, Desk, Owner, PATH, Place, Section, Visit};
use crate::screens::fragment;
use crate::screens::mailed::FORGOT_PATH;

/// Changing the password, for who knows the present one.
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
            password_rule: PasswordRule::of(self.flow.algorithm()),
            csrf: visit.csrf,
            next: None,
        };
        fragment("account/password.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let change = guarded(&account.core, None, post(change));
        Router::new().route("/account/password", change).with_state(Desk::new(self, account))
    }
}

async fn change(
    State(desk): State<Desk<PasswordSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<Body>,
) -> Response {
    let Body { current_password, password } = submission.value;
    match desk.section.flow.change(&owner.0, &current_password, password, &visitor.headers, &visitor.client).await {
        Ok((id, secret)) => with_session(desk.done("password-changed"), &desk.account.core, &id, &secret),
        Err(ChangeError::Denied(denied)) => denied.into_response(),
        Err(error) => desk.failed(&visitor, &owner, error).await,
    }
}
