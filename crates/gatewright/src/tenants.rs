use gatewright_auth::users::UserStoreError;
use gatewright_auth::{AccountError, Accounts};
use gatewright_base::{Ambient, Subject, TenantId, UserId};
use gatewright_db::OpenError;
use gatewright_entities::tenancy::{Member, MemberKind, MembershipsInitError, SqlMemberships};

use crate::accounts::AccountsError;
use crate::app::parts;
use crate::{Config, accounts};

/// Who belongs to which tenant, for trusted management: a command line, an admin's tool. From [`tenants`].
#[derive(Debug, Clone)]
pub struct Tenants {
    accounts: Accounts,
    memberships: SqlMemberships,
}

/// Why memberships were not managed.
#[derive(Debug, thiserror::Error)]
pub enum TenantsError {
    /// What was given can be no tenant's name.
    #[error("a tenant's name is 1 to 200 visible ASCII characters without spaces: it travels in a header")]
    Name,
    /// There are none.
    #[error("no entity has `multi_tenant = true`: there are no tenants")]
    None,
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The accounts cannot be opened.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// There is no such account, or the store failed.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The memberships cannot be opened.
    #[error(transparent)]
    Memberships(#[from] MembershipsInitError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
}

/// One membership, as people know it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TenantMember {
    /// Tenant, kind and id.
    #[serde(flatten)]
    pub member: Member,
    /// A user's address; absent for a service account, and where the account is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

/// Opens the memberships of a configuration, beside a running server or without one. Their table is made if it may be.
pub async fn tenants(config: &Config) -> Result<Tenants, TenantsError> {
    if !parts::has_tenants(config) {
        return Err(TenantsError::None);
    }
    let accounts = accounts(config).await?;
    let db = parts::open(config).await?;
    let memberships = parts::memberships(config, &db, &Ambient::system()).await?;
    Ok(Tenants { accounts, memberships })
}

impl Tenants {
    /// Makes the account with this address a member; `false` if it was one already.
    pub async fn add_member(&self, tenant: &str, email: &str) -> Result<bool, TenantsError> {
        let tenant = named(tenant)?;
        Ok(self.memberships.add(&tenant, &self.user(email).await?).await?)
    }

    /// Ends a membership; `false` if there was none. Open event streams end within a heartbeat.
    pub async fn remove_member(&self, tenant: &str, email: &str) -> Result<bool, TenantsError> {
        let tenant = named(tenant)?;
        Ok(self.memberships.remove(&tenant, &self.user(email).await?).await?)
    }

    /// The members of one tenant, or of all, by tenant.
    pub async fn list(&self, tenant: Option<&str>) -> Result<Vec<TenantMember>, TenantsError> {
        let tenant = tenant.map(named).transpose()?;
        let mut members = Vec::new();
        for member in self.memberships.list(tenant.as_ref()).await? {
            let email = self.email(&member).await?;
            members.push(TenantMember { member, email });
        }
        Ok(members)
    }

    async fn user(&self, email: &str) -> Result<Subject, TenantsError> {
        Ok(Subject::User(self.accounts.find(email).await?.id))
    }

    async fn email(&self, member: &Member) -> Result<Option<String>, TenantsError> {
        let (MemberKind::User, Ok(id)) = (member.kind, UserId::parse(&member.id)) else { return Ok(None) };
        match self.accounts.find_by_id(&id).await {
            Ok(user) => Ok(Some(user.email.to_string())),
            Err(AccountError::Users(UserStoreError::NotFound)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn named(text: &str) -> Result<TenantId, TenantsError> {
    if text.is_ascii() { TenantId::parse(text).map_err(|_| TenantsError::Name) } else { Err(TenantsError::Name) }
}
