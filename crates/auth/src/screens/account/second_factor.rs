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
use crate::plugins::two_factor::{Flow, TwoFactorError};
use crate::plugins::web::{Visitor, guarded};
use crate::session::Session;

/// The authenticator app and the backup codes.
pub(crate) struct SecondFactorSection {
    flow: Arc<Flow>,
}

#[derive(Clone)]
struct Desk {
    section: Arc<SecondFactorSection>,
    account: Arc<Account>,
}

#[derive(Serialize)]
struct Context<'a> {
    enabled: bool,
    stepped_up: bool,
    enroll: String,
    backup_codes: String,
    disable: String,
    next: &'a str,
    csrf: Option<&'a str>,
}

#[derive(serde::Deserialize)]
struct Body {
    code: Secret,
}

impl SecondFactorSection {
    pub(crate) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for SecondFactorSection {
    fn place(&self) -> Place {
        Place::SecondFactor
    }

    fn anchor(&self) -> &'static str {
        "two-factor"
    }

    fn heading(&self) -> &'static str {
        "Two-factor authentication"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("two-factor-off", "Two-factor authentication is off.")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let base = &self.flow.core.config.base_path;
        let context = Context {
            enabled: self.flow.is_enabled(visit.session.user()).await?,
            stepped_up: visit.stepped_up,
            enroll: format!("{base}/2fa/enroll"),
            backup_codes: format!("{base}/2fa/backup-codes"),
            disable: format!("{PATH}/two-factor/disable#{}", self.anchor()),
            next: PATH,
            csrf: visit.csrf,
        };
        fragment("account/second_factor.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let disable = guarded(&account.core, Some(&self.flow.by_address), post(disable));
        let desk = Desk { section: self, account: account.clone() };
        Router::new().route("/account/two-factor/disable", disable).with_state(desk)
    }
}

async fn disable(
    State(Desk { section, account }): State<Desk>,
    visitor: Visitor,
    caller: Result<Session, Problem>,
    submission: Submission<Body>,
) -> Response {
    let session = match caller {
        Ok(session) => session,
        Err(problem) => return account.turned_away(problem),
    };
    match section.flow.disable(&session, &submission.value.code, &visitor.client).await {
        Ok(()) => done(&*section, "two-factor-off"),
        Err(TwoFactorError::Denied(denied)) => denied.into_response(),
        Err(error) => account.failed(&*section, &visitor, &session, error.into()).await,
    }
}
