use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::{ExportError, Flow, answer};
use crate::fresh::{Asked, FreshError, Given, asked};
use crate::screens::account::{Account, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::web::{Case, Visitor, guarded};

/// A copy of everything.
pub(crate) struct ExportSection {
    flow: Arc<Flow>,
}

#[derive(Serialize)]
struct Context<'a> {
    fresh: Asked,
    action: String,
    csrf: Option<&'a str>,
    /// Whether its form was refused, and is shown again.
    trouble: bool,
    next: Option<&'a str>,
}

impl ExportSection {
    pub(crate) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for ExportSection {
    fn place(&self) -> Place {
        Place::Export
    }

    fn anchor(&self) -> &'static str {
        "export"
    }

    fn heading(&self) -> &'static str {
        "account.export.heading"
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let context = Context {
            fresh: asked(&self.flow.core, visit.session).await?,
            action: format!("{PATH}/export#{}", self.anchor()),
            csrf: visit.csrf,
            trouble: visit.problem.is_some(),
            next: None,
        };
        fragment("account/export.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let export = guarded(&account.core, None, post(export));
        Router::new().route("/account/export", export).with_state(SectionState::new(self, account))
    }
}

async fn export(
    State(state): State<SectionState<ExportSection>>,
    Case(case): Case,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<Given>,
) -> Response {
    let flow = &state.section.flow;
    match flow.begin(&owner.0, Some(&submission.value), &visitor.client).await {
        Ok(export) => answer(flow, export, case),
        Err(ExportError::Fresh(FreshError::Denied(denied))) => denied.into_response(),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}
