use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::{Account, PATH, Place, Section, Visit, done, fragment};
use crate::plugins::password::{ChangeError, ChangePassword};
use crate::plugins::web::{Visitor, guarded, with_session};
use crate::screens::mailed::FORGOT_PATH;
use crate::session::Session;

/// Changing the password, for who knows the present one.
pub(crate) struct PasswordSection {
    flow: Arc<ChangePassword>,
}

#[derive(Clone)]
struct Desk {
    section: Arc<PasswordSection>,
    account: Arc<Account>,
}

#[derive(Serialize)]
struct Context<'a> {
    password_set: bool,
    stepped_up: bool,
    email: &'a str,
    action: String,
    forgot: &'a str,
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
        "Password"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("password-changed", "Your password was changed. Everywhere else you were signed out.")]
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
            csrf: visit.csrf,
            next: None,
        };
        fragment("account/password.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let desk = Desk { section: self, account: account.clone() };
        Router::new().route("/account/password", guarded(&account.core, None, post(change))).with_state(desk)
    }
}

async fn change(
    State(Desk { section, account }): State<Desk>,
    visitor: Visitor,
    caller: Result<Session, Problem>,
    submission: Submission<Body>,
) -> Response {
    let session = match caller {
        Ok(session) => session,
        Err(problem) => return account.turned_away(problem),
    };
    let Body { current_password, password } = submission.value;
    match section.flow.change(&session, &current_password, password, &visitor.client).await {
        Ok((id, secret)) => with_session(done(&*section, "password-changed"), &account.core, &id, &secret),
        Err(ChangeError::Denied(denied)) => denied.into_response(),
        Err(error) => account.failed(&*section, &visitor, &session, error.into()).await,
    }
}
