use std::collections::BTreeSet;

use gatewright_auth::service_accounts::{ServiceAccountError, ServiceAccounts};
use gatewright_auth::users::UserStoreError;
use gatewright_auth::{AccountError, AccountName, Accounts, Unverified};
use gatewright_base::{Ambient, Roles, ServiceId, Subject, TenantId, UserId};
use gatewright_db::OpenError;
use gatewright_entities::tenancy::{Member, MemberKind, MembershipsInitError, SqlMemberships};
use gatewright_tenancy::{ADMIN, MEMBER, OWNER};

use crate::accounts::{AccountsError, told};
use crate::app::account_events::told_of_members;
use crate::app::parts;
use crate::{Config, management};

/// Memberships of tenants, for trusted management: a command line, an admin tool. From [`tenants`].
#[derive(Debug, Clone)]
pub struct Tenants {
    accounts: Accounts,
    services: Option<ServiceAccounts>,
    memberships: SqlMemberships,
    /// The roles of `[tenancy.roles]`.
    roles: BTreeSet<String>,
}

/// Why memberships were not managed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TenantsError {
    /// The tenant's name is invalid.
    #[error("a tenant's name is 1 to 200 visible ASCII characters without spaces: it travels in a header")]
    Name,
    /// The role does not exist.
    #[error("there is no tenant role \"{0}\": there are owner, admin, member and those of [tenancy.roles]")]
    Role(String),
    /// There are no tenants.
    #[error("no entity has `multi_tenant = true`: there are no tenants")]
    None,
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The accounts cannot be opened.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The account does not exist, or the store failed.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The service account does not exist, or the store failed.
    #[error(transparent)]
    ServiceAccount(#[from] ServiceAccountError),
    /// The plugin that has service accounts is off.
    #[error("`auth.plugins` is without \"tokens\", so there are no service accounts")]
    NoServiceAccounts,
    /// The memberships cannot be opened.
    #[error(transparent)]
    Memberships(#[from] MembershipsInitError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
}

/// A member to be added or removed, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberName<'a> {
    /// The account with this address. It is not made a member if a stranger may have registered it; see
    /// [`Accounts::resolve`].
    User(&'a str),
    /// The account with this address, whether or not its mailbox is proven.
    UnverifiedUser(&'a str),
    /// The service account with this name.
    Service(&'a str),
}

/// One membership, with readable names.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TenantMember {
    /// Tenant, kind and id.
    #[serde(flatten)]
    pub member: Member,
    /// A user's address; absent for a service account, and if the account was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// A service account's name; absent for a user, and if the account was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Opens the memberships of a configuration, with or without a running server. Their table is created if the
/// configuration allows it.
pub async fn tenants(config: &Config) -> Result<Tenants, TenantsError> {
    if !parts::has_tenants(config) {
        return Err(TenantsError::None);
    }
    let auth = Box::pin(management(config)).await?;
    let (db, ambient, mut told_config) = (parts::open(config).await?, Ambient::system(), config.clone());
    let (_, events) = Box::pin(told(&mut told_config, &db, &ambient)).await.map_err(AccountsError::from)?;
    let memberships = parts::memberships(config, &db, &ambient).await?;
    let memberships = told_of_members(memberships, events.as_ref());
    let roles = config.tenancy.roles.keys().cloned().collect();
    Ok(Tenants { accounts: auth.accounts(), services: auth.service_accounts(), memberships, roles })
}

impl Tenants {
    /// Makes an account a member; `false` if it was one already.
    pub async fn add_member(&self, tenant: &str, member: MemberName<'_>) -> Result<bool, TenantsError> {
        let tenant = tenant_id(tenant)?;
        Ok(self.memberships.add(&tenant, &self.subject(member).await?).await?)
    }

    /// Makes an account a member with exactly these roles, whether it was one or not. Fails for an unknown role.
    pub async fn put_member(&self, tenant: &str, member: MemberName<'_>, roles: &Roles) -> Result<(), TenantsError> {
        let tenant = tenant_id(tenant)?;
        let known = |role: &str| [OWNER, ADMIN, MEMBER].contains(&role) || self.roles.contains(role);
        if let Some(unknown) = roles.iter().find(|role| !known(role)) {
            return Err(TenantsError::Role(unknown.to_owned()));
        }
        Ok(self.memberships.put(&tenant, &self.subject(member).await?, roles).await?)
    }

    /// Ends a membership; `false` if there was none. Open event streams end within a heartbeat.
    pub async fn remove_member(&self, tenant: &str, member: MemberName<'_>) -> Result<bool, TenantsError> {
        let tenant = tenant_id(tenant)?;
        // A membership ends whoever has the account.
        let member = match member {
            MemberName::User(email) => MemberName::UnverifiedUser(email),
            other => other,
        };
        Ok(self.memberships.remove(&tenant, &self.subject(member).await?).await?)
    }

    /// The members of one tenant, or of all, by tenant.
    pub async fn list(&self, tenant: Option<&str>) -> Result<Vec<TenantMember>, TenantsError> {
        let tenant = tenant.map(tenant_id).transpose()?;
        let mut members = Vec::new();
        for member in self.memberships.list(tenant.as_ref()).await? {
            let (email, name) = match member.kind {
                MemberKind::User => (self.email(&member).await?, None),
                MemberKind::Service => (None, self.service_name(&member).await?),
            };
            members.push(TenantMember { member, email, name });
        }
        Ok(members)
    }

    async fn subject(&self, member: MemberName<'_>) -> Result<Subject, TenantsError> {
        Ok(match member {
            MemberName::User(email) => self.user(email, Unverified::Refuse).await?,
            MemberName::UnverifiedUser(email) => self.user(email, Unverified::Accept).await?,
            MemberName::Service(name) => {
                let services = self.services.as_ref().ok_or(TenantsError::NoServiceAccounts)?;
                Subject::Service(services.find(name).await?.id)
            }
        })
    }

    async fn user(&self, email: &str, unverified: Unverified) -> Result<Subject, TenantsError> {
        Ok(Subject::User(self.accounts.resolve(AccountName::Address(email), unverified).await?.id))
    }

    async fn email(&self, member: &Member) -> Result<Option<String>, TenantsError> {
        let Ok(id) = UserId::parse(&member.id) else { return Ok(None) };
        match self.accounts.find_by_id(&id).await {
            Ok(user) => Ok(user.address().map(ToString::to_string)),
            Err(AccountError::Users(UserStoreError::NotFound)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn service_name(&self, member: &Member) -> Result<Option<String>, TenantsError> {
        let (Some(services), Ok(id)) = (&self.services, ServiceId::parse(&member.id)) else { return Ok(None) };
        match services.find_by_id(&id).await {
            Ok(account) => Ok(Some(account.name)),
            Err(ServiceAccountError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The tenant that an operator names. A new tenant has its identifier as its name, and requests name it in a header.
pub fn tenant_id(text: &str) -> Result<TenantId, TenantsError> {
    if text.is_ascii() { TenantId::parse(text).map_err(|_| TenantsError::Name) } else { Err(TenantsError::Name) }
}
