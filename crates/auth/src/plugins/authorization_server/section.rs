use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_base::TenantId;
use gatewright_http::{Problem, Segment, Submission};
use serde::Serialize;

use super::consents::Consent;
use super::error::Failure;
use super::server::Server;
use crate::problem;
use crate::screens::account::{Account, Moment, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::web::{Visitor, guarded};

/// The programs that a user connected.
pub(super) struct Programs {
    server: Server,
}

#[derive(Serialize)]
struct Context<'a> {
    programs: Vec<Row>,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    host: Option<String>,
    /// The name of the tenant that the user chose.
    tenant: Option<String>,
    scopes: String,
    connected: Moment,
    last_used: Option<Moment>,
    end: String,
}

impl Programs {
    pub(super) fn new(server: Server) -> Self {
        Self { server }
    }
}

#[async_trait]
impl Section for Programs {
    fn place(&self) -> Place {
        Place::Programs
    }

    fn anchor(&self) -> &'static str {
        "programs"
    }

    fn heading(&self) -> &'static str {
        "account.programs.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("program-ended", "account.programs.ended"), ("program-gone", "account.programs.gone")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let consents = self.server.consents.of_user(&visit.session.user().id).await;
        let consents = consents.map_err(|error| problem::store_failed(&error))?;
        let mut names = HashMap::new();
        if let Some(store) = &self.server.core.tenants
            && consents.iter().any(|consent| consent.tenant.is_some())
        {
            let tenants = store.tenants_of(&visit.session.user().id).await;
            let tenants = tenants.map_err(|error| problem::store_failed(&error))?;
            names.extend(tenants.into_iter().map(|tenant| (tenant.id, tenant.name)));
        }
        let rows = consents.into_iter().map(|consent| self.row(consent, &names)).collect();
        fragment("account/programs.html", &Context { programs: rows, csrf: visit.csrf, next: None }).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        Router::new()
            .route("/account/programs/{id}/end", guarded(&account.core, None, post(end)))
            .with_state(SectionState::new(self, account))
    }
}

async fn end(
    State(state): State<SectionState<Programs>>,
    visitor: Visitor,
    owner: Owner,
    Segment(id): Segment,
    _: Submission<()>,
) -> Response {
    match state.section.server.disconnect(&owner.0.user().id, &id, Some(&visitor.client)).await {
        Ok(true) => state.done("program-ended"),
        Ok(false) => state.done("program-gone"),
        Err(Failure::Store(error)) => state.failed(&visitor, &owner, problem::store_failed(&*error)).await,
        Err(Failure::Refused(error)) => state.failed(&visitor, &owner, Problem::bad_request(error.description)).await,
    }
}

impl Programs {
    /// A tenant that the user has left is shown without a name.
    fn row(&self, consent: Consent, names: &HashMap<TenantId, String>) -> Row {
        let supported = self.server.supported();
        let scopes: Vec<_> = consent.scopes.iter().map(|scope| supported.text(scope)).collect();
        Row {
            scopes: scopes.join(", "),
            name: consent.name,
            tenant: consent.tenant.map(|id| names.get(&id).cloned().unwrap_or_else(|| id.as_str().to_owned())),
            host: consent.host,
            connected: Moment::new(consent.created_at),
            last_used: consent.last_used_at.map(Moment::new),
            end: format!("{PATH}/programs/{}/end", consent.id),
        }
    }
}
