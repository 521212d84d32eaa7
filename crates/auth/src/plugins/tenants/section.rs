use std::sync::Arc;

use async_trait::async_trait;
use gatewright_http::Problem;
use gatewright_tenancy::TenantStore;
use serde::Serialize;

use crate::problem;
use crate::screens::account::{Place, Section, Visit};
use crate::screens::fragment;

/// The tenants of an account, and its roles in them.
pub(crate) struct OrganisationsSection {
    store: Arc<dyn TenantStore>,
}

#[derive(Serialize)]
struct Context {
    tenants: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    roles: Vec<String>,
}

impl OrganisationsSection {
    pub(crate) fn new(store: Arc<dyn TenantStore>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Section for OrganisationsSection {
    fn place(&self) -> Place {
        Place::Organisations
    }

    fn anchor(&self) -> &'static str {
        "organisations"
    }

    fn heading(&self) -> &'static str {
        "account.organisations.heading"
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let tenants = self.store.tenants_of(&visit.session.user().id).await;
        let tenants = tenants.map_err(|error| problem::store_failed(&error))?;
        let row = |tenant: gatewright_tenancy::TenantOfUser| Row {
            name: tenant.name,
            roles: tenant.roles.iter().map(ToOwned::to_owned).collect(),
        };
        fragment("account/organisations.html", &Context { tenants: tenants.into_iter().map(row).collect() }).map(Some)
    }
}
