use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_http::{Problem, Submission, locale};
use serde::Serialize;

use super::{DeleteError, Flow};
use crate::fresh::{Asked, FreshError, Given, asked};
use crate::screens::account::{Account, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::screens::mailed;
use crate::web::{Visitor, guarded, without_session};

/// Deleting the account.
pub(crate) struct DeletionSection {
    flow: Arc<Flow>,
}

#[derive(Serialize)]
struct Context<'a> {
    email: &'a str,
    fresh: Asked,
    action: String,
    csrf: Option<&'a str>,
    /// Whether its form was refused, and is shown again.
    trouble: bool,
    next: Option<&'a str>,
}

#[derive(serde::Deserialize)]
struct Body {
    confirm: String,
    #[serde(flatten)]
    given: Given,
}

impl DeletionSection {
    pub(crate) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for DeletionSection {
    fn place(&self) -> Place {
        Place::Deletion
    }

    fn anchor(&self) -> &'static str {
        "delete-account"
    }

    fn heading(&self) -> &'static str {
        "account.deletion.heading"
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let context = Context {
            email: visit.session.user().email.as_str(),
            fresh: asked(&self.flow.core, visit.session).await?,
            action: format!("{PATH}/delete#{}", self.anchor()),
            csrf: visit.csrf,
            trouble: visit.problem.is_some(),
            next: None,
        };
        fragment("account/deletion.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let delete = guarded(&account.core, None, post(delete));
        Router::new().route("/account/delete", delete).with_state(SectionState::new(self, account))
    }
}

/// The page after the account was deleted.
pub(crate) fn deleted() -> Response {
    let text = locale::text("account.deletion.done", &[]);
    mailed::note("account.deletion.done_title", &text, Some(("/", "form.continue")))
}

async fn delete(
    State(state): State<SectionState<DeletionSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<Body>,
) -> Response {
    let Body { confirm, given } = submission.value;
    if confirm.trim().to_lowercase() != owner.0.user().email.as_str() {
        let problem =
            Problem::invalid_field("confirm", "invalid", "Type the email address of this account to confirm.");
        return state.failed(&visitor, &owner, problem).await;
    }
    match state.section.flow.delete(&owner.0, &given, &visitor.client).await {
        Ok(()) => without_session(deleted(), &state.account.core),
        Err(DeleteError::Fresh(FreshError::Denied(denied))) => denied.into_response(),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}
