//! Tenants: accounts create them, invite others by mail, and manage members and their roles.
//!
//! To invite somebody, `http.rs` takes an address and roles from the session of an owner or admin, and `flow.rs` checks
//! whether their roles permit it. The rest is the same for every invitation (`plugins/invitations`).
//!
//! # Invariants
//!
//! For a caller who is not a member, a tenant looks like one that does not exist. The mail contains no text of the
//! inviter, so that invitations cannot carry messages to strangers. The store checks permissions in the transaction of
//! the change ([`TenantStore`]), and the last owner cannot be removed. The permissions of the inviter are checked again
//! when an invitation is accepted.

mod flow;
mod http;
mod section;

use std::collections::BTreeSet;
use std::sync::Arc;

use gatewright_tenancy::{ADMIN, MEMBER, OWNER};

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared, invitations};

use flow::Flow;
pub use gatewright_tenancy::{SqlMemberships, TenantStore, TenantStoreError};
use section::OrganisationsSection;

/// The most members of a tenant.
pub(crate) const MAX_MEMBERS: u32 = 10_000;

/// The tenants plugin.
pub struct TenantsPlugin {
    store: Arc<dyn TenantStore>,
    roles: BTreeSet<String>,
    self_service: bool,
}

impl TenantsPlugin {
    /// Tenants in `store`. Every account may create tenants. Invitations are always stored in the database.
    pub fn new(store: Arc<dyn TenantStore>) -> Self {
        let roles = [OWNER, ADMIN, MEMBER].map(str::to_owned).into();
        Self { store, roles, self_service: true }
    }

    /// The roles within tenants that may be given, in addition to `owner`, `admin` and `member`.
    pub fn roles<S: Into<String>>(mut self, roles: impl IntoIterator<Item = S>) -> Self {
        self.roles.extend(roles.into_iter().map(Into::into));
        self
    }

    /// Whether accounts may create tenants.
    pub fn self_service(self, self_service: bool) -> Self {
        Self { self_service, ..self }
    }
}

impl Plugin for TenantsPlugin {
    fn name(&self) -> &'static str {
        "tenants"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let invitations = invitations::prepare(foundation)?;
        let Self { store, roles, self_service } = *self;
        let prepared = Prepared::new().tenants(store.clone()).invitations(invitations.clone());
        let of_account = store.clone();
        let prepared = prepared.account_section(|_| Arc::new(OrganisationsSection::new(of_account)));
        Ok(prepared.routes(move |core| {
            http::routes(Arc::new(Flow::new(core.clone(), store, invitations, roles, self_service)))
        }))
    }
}

impl std::fmt::Debug for TenantsPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantsPlugin").field("self_service", &self.self_service).finish_non_exhaustive()
    }
}
