use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::{Flow, TwoFactorError};
use crate::fresh::{Asked, asked_unless_young};
use crate::screens::account::{Account, AccountPage, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::web::{Visitor, guarded_proof, proved};

/// The authenticator app and the backup codes.
pub(crate) struct SecondFactorSection {
    flow: Arc<Flow>,
}

#[derive(Serialize)]
struct Context<'a> {
    enabled: bool,
    stepped_up: bool,
    fresh: Asked,
    enroll: String,
    backup_codes: String,
    disable: String,
    next: &'a str,
    csrf: Option<&'a str>,
    /// Whether its form was refused, and is shown again.
    trouble: bool,
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
        "account.second_factor.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("two-factor-off", "account.second_factor.disabled")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let base = &self.flow.core.config.base_path;
        let context = Context {
            enabled: self.flow.is_enabled(visit.session.user()).await?,
            stepped_up: visit.stepped_up,
            fresh: asked_unless_young(&self.flow.core, visit.session).await?,
            enroll: format!("{base}/2fa/enroll"),
            backup_codes: format!("{base}/2fa/backup-codes"),
            disable: format!("{PATH}/two-factor/disable#{}", self.anchor()),
            next: AccountPage::SecondFactor.path(),
            csrf: visit.csrf,
            trouble: visit.problem.is_some(),
        };
        fragment("account/second_factor.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let disable = guarded_proof(&account.core, &self.flow.disable_by_address, post(disable));
        Router::new().route("/account/two-factor/disable", disable).with_state(SectionState::new(self, account))
    }
}

async fn disable(
    State(state): State<SectionState<SecondFactorSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<Body>,
) -> Response {
    match state.section.flow.disable(&owner.0, &submission.value.code, &visitor.client).await {
        Ok(()) => proved(state.done("two-factor-off")),
        Err(TwoFactorError::Denied(denied)) => denied.into_response(),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}
