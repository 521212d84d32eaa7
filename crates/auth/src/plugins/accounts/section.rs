use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_http::{Problem, Segment, Submission};
use serde::Serialize;

use super::{Flow, was_last};
use crate::core::Core;
use crate::fresh::{Asked, Given, asked_unless_young};
use crate::screens::account::{Account, Moment, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::screens::marks::mark;
use crate::users::{LinkedAccount, Unlinked};
use crate::web::{Visitor, guarded};

/// The providers that a user can sign in with, and those that they could link.
pub(crate) struct ProvidersSection {
    core: Arc<Core>,
    flow: Arc<Flow>,
}

#[derive(Serialize)]
struct Context<'a> {
    links: Vec<Row>,
    others: Vec<Other<'a>>,
    /// The proof for linking and unlinking.
    old: Asked,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Row {
    label: String,
    mark: Option<&'static str>,
    /// Name and address, as the provider has them.
    name: Option<String>,
    email: Option<String>,
    linked: Moment,
    unlink: String,
    /// Its form, in the names of fields.
    form: String,
}

#[derive(Serialize)]
struct Other<'a> {
    label: &'a str,
    mark: Option<&'static str>,
    href: String,
    form: String,
}

impl ProvidersSection {
    pub(crate) fn new(core: Arc<Core>, flow: Arc<Flow>) -> Self {
        Self { core, flow }
    }

    fn row(&self, account: LinkedAccount) -> Row {
        let link = account.link;
        // A provider that is no longer configured is only known by its name.
        let known = self.core.oauth_providers.iter().find(|known| known.name == link.provider);
        Row {
            label: known.map_or_else(|| link.provider.clone(), |known| known.label.clone()),
            mark: mark(&link.provider),
            name: link.name,
            email: link.email,
            linked: Moment::new(account.linked_at),
            unlink: format!("{PATH}/providers/{}/unlink", link.provider),
            form: format!("unlink-{}", link.provider),
        }
    }
}

#[async_trait]
impl Section for ProvidersSection {
    fn place(&self) -> Place {
        Place::Providers
    }

    fn anchor(&self) -> &'static str {
        "providers"
    }

    fn heading(&self) -> &'static str {
        "account.providers.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("unlinked", "account.providers.unlinked"), ("not-linked", "account.providers.gone")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let linked = self.flow.list(visit.session).await?;
        let is_linked = |name: &str| linked.iter().any(|account| account.link.provider == name);
        let base = &self.core.config.base_path;
        let others: Vec<_> = self
            .core
            .oauth_providers
            .iter()
            .filter(|known| !is_linked(&known.name))
            .map(|known| Other {
                label: &known.label,
                mark: mark(&known.name),
                href: format!("{base}/oauth/{}/link", known.name),
                form: format!("link-{}", known.name),
            })
            .collect();
        if linked.is_empty() && others.is_empty() {
            return Ok(None);
        }
        let links = linked.into_iter().map(|account| self.row(account)).collect();
        let old = asked_unless_young(&self.core, visit.session).await?;
        fragment("account/providers.html", &Context { links, others, old, csrf: visit.csrf, next: None }).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let unlink = guarded(&account.core, None, post(unlink));
        Router::new().route("/account/providers/{provider}/unlink", unlink).with_state(SectionState::new(self, account))
    }
}

async fn unlink(
    State(state): State<SectionState<ProvidersSection>>,
    visitor: Visitor,
    owner: Owner,
    Segment(provider): Segment,
    submission: Submission<Given>,
) -> Response {
    match state.section.flow.unlink(&owner.0, &provider, &submission.value, &visitor.client).await {
        Ok(Unlinked::Removed) => state.done("unlinked"),
        Ok(Unlinked::NotLinked) => state.done("not-linked"),
        Ok(Unlinked::WasLast) => state.failed(&visitor, &owner, was_last()).await,
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}
