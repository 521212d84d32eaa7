use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::moment::Moment;
use super::{Account, PATH, Place, Section, Visit, done, fragment};
use crate::Core;
use crate::plugins::accounts::{Flow, was_last};
use crate::plugins::web::{Visitor, guarded};
use crate::session::Session;
use crate::users::{LinkedAccount, Unlinked};

/// The providers that somebody can sign in with, and those that they could link.
pub(crate) struct ProvidersSection {
    core: Arc<Core>,
    flow: Arc<Flow>,
}

#[derive(Clone)]
struct Desk {
    section: Arc<ProvidersSection>,
    account: Arc<Account>,
}

#[derive(Serialize)]
struct Context<'a> {
    links: Vec<Row>,
    others: Vec<Other<'a>>,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Row {
    label: String,
    /// Name and address, as the provider has them.
    name: Option<String>,
    email: Option<String>,
    linked: Moment,
    unlink: String,
}

#[derive(Serialize)]
struct Other<'a> {
    label: &'a str,
    href: String,
}

impl ProvidersSection {
    pub(crate) fn new(core: Arc<Core>, flow: Arc<Flow>) -> Self {
        Self { core, flow }
    }

    fn row(&self, account: LinkedAccount) -> Row {
        let link = account.link;
        // One that is configured no longer is known by its name alone.
        let known = self.core.oauth_providers.iter().find(|known| known.name == link.provider);
        Row {
            label: known.map_or_else(|| link.provider.clone(), |known| known.label.clone()),
            name: link.name,
            email: link.email,
            linked: Moment::new(account.linked_at),
            unlink: format!("{PATH}/providers/{}/unlink", link.provider),
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
        "Linked providers"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("unlinked", "The provider was unlinked. You cannot sign in with it any more."),
            ("not-linked", "That provider was unlinked already."),
        ]
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
            .map(|known| Other { label: &known.label, href: format!("{base}/oauth/{}/link", known.name) })
            .collect();
        if linked.is_empty() && others.is_empty() {
            return Ok(None);
        }
        let links = linked.into_iter().map(|account| self.row(account)).collect();
        fragment("account/providers.html", &Context { links, others, csrf: visit.csrf, next: None }).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let desk = Desk { section: self, account: account.clone() };
        let unlink = guarded(&account.core, None, post(unlink));
        Router::new().route("/account/providers/{provider}/unlink", unlink).with_state(desk)
    }
}

async fn unlink(
    State(Desk { section, account }): State<Desk>,
    visitor: Visitor,
    caller: Result<Session, Problem>,
    Path(provider): Path<String>,
    _: Submission<()>,
) -> Response {
    let session = match caller {
        Ok(session) => session,
        Err(problem) => return account.turned_away(problem),
    };
    match section.flow.unlink(&session, &provider, &visitor.client).await {
        Ok(Unlinked::Removed) => done(&*section, "unlinked"),
        Ok(Unlinked::NotLinked) => done(&*section, "not-linked"),
        Ok(Unlinked::WasLast) => account.failed(&*section, &visitor, &session, was_last()).await,
        Err(error) => Problem::from(error).into_page(),
    }
}
