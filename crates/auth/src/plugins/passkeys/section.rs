use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_http::{Problem, Segment, Submission};
use serde::Serialize;

use super::{Flow, Passkey, PasskeyError};
use crate::fresh::{Asked, Given, asked, asked_unless_young};
use crate::screens::account::{Account, AccountPage, Moment, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::web::{Visitor, guarded};

/// The passkeys, and adding one.
pub(crate) struct PasskeysSection {
    flow: Arc<Flow>,
}

#[derive(Serialize)]
struct Context<'a> {
    passkeys: Vec<Row>,
    stepped_up: bool,
    fresh: Asked,
    /// The proof for removing one.
    old: Asked,
    email: &'a str,
    options: String,
    finish: String,
    done: String,
    csrf: Option<&'a str>,
    /// Whether its form was refused, and is shown again.
    trouble: bool,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    backed_up: bool,
    created: Moment,
    last_used: Option<Moment>,
    remove: String,
    /// Its form, in the names of fields.
    form: String,
}

impl PasskeysSection {
    pub(crate) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for PasskeysSection {
    fn place(&self) -> Place {
        Place::Passkeys
    }

    fn anchor(&self) -> &'static str {
        "passkeys"
    }

    fn heading(&self) -> &'static str {
        "account.passkeys.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("passkey-added", "account.passkeys.added"),
            ("passkey-removed", "account.passkeys.removed"),
            ("passkey-gone", "account.passkeys.gone"),
        ]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        if !self.flow.is_available() {
            return Ok(None);
        }
        let base = &self.flow.core.config.base_path;
        let context = Context {
            passkeys: self.flow.list(visit.session).await?.iter().map(row).collect(),
            stepped_up: visit.stepped_up,
            fresh: asked(&self.flow.core, visit.session).await?,
            old: asked_unless_young(&self.flow.core, visit.session).await?,
            email: visit.session.user().email.as_str(),
            options: format!("{base}/passkeys/register/options"),
            finish: format!("{base}/passkeys/register"),
            done: format!("{}?done=passkey-added#{}", AccountPage::SignIn.path(), self.anchor()),
            csrf: visit.csrf,
            trouble: visit.problem.is_some(),
            next: None,
        };
        fragment("account/passkeys.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let remove = guarded(&account.core, None, post(remove));
        Router::new().route("/account/passkeys/{id}/remove", remove).with_state(SectionState::new(self, account))
    }
}

async fn remove(
    State(state): State<SectionState<PasskeysSection>>,
    visitor: Visitor,
    owner: Owner,
    Segment(id): Segment,
    submission: Submission<Given>,
) -> Response {
    match state.section.flow.remove(&owner.0, &id, &submission.value, &visitor.client).await {
        Ok(()) => state.done("passkey-removed"),
        Err(PasskeyError::Missing) => state.done("passkey-gone"),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}

fn row(passkey: &Passkey) -> Row {
    Row {
        name: passkey.name.to_string(),
        backed_up: passkey.backed_up,
        created: Moment::new(passkey.created_at),
        last_used: passkey.last_used_at.map(Moment::new),
        remove: format!("{PATH}/passkeys/{}/remove", passkey.id),
        form: format!("passkey-{}", passkey.id),
    }
}
