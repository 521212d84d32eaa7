//! Tenants: their members, and the tenant that a request names.
//!
//! A request names its tenant in a header ([`Named::read`]). A [`Memberships`] decides whether the caller belongs to
//! it: the table `tenant_members` ([`SqlMemberships`]) or the program's own. [`access`](crate::access) decides from
//! both. A tenant is only a name: it exists if it has members or records.

mod named;
mod sql;

use async_trait::async_trait;
use gatewright_base::{Identity, Roles, Subject, TenantId, TenantLimit, UserId};
use gatewright_db::{Error as DatabaseError, Tx};

pub use gatewright_tenancy::{
    COMPONENT, Member, MemberKind, MembershipsInitError, STEPS, SqlMemberships, USER_MEMBERS,
};
pub use named::{Named, TENANT_HEADER};

/// The memberships of tenants.
///
/// It is called for every request to a multi-tenant entity, and again at each heartbeat of a stream. An implementation
/// may cache results for a short time; streams then continue for as long after a membership has ended.
#[async_trait]
pub trait Memberships: Send + Sync + 'static {
    /// Whether `subject` belongs to `tenant`. A tenant that does not exist has no members.
    async fn is_member(&self, subject: &Subject, tenant: &TenantId) -> Result<bool, MembershipError>;

    /// The roles that `subject` has in `tenant`; `None` if it does not belong to it. The program defines what they
    /// permit ([`Builder::tenant_roles`](crate::Builder::tenant_roles)). A store without roles need not implement it.
    async fn membership(&self, subject: &Subject, tenant: &TenantId) -> Result<Option<Roles>, MembershipError> {
        Ok(self.is_member(subject, tenant).await?.then(Roles::default))
    }

    /// Whether `subject` belongs to `tenant`, called inside a write with a relation to it. A store in the same database
    /// reads through `tx`.
    async fn is_member_within(&self, tx: &Tx, subject: &Subject, tenant: &TenantId) -> Result<bool, MembershipError> {
        let _ = tx;
        self.is_member(subject, tenant).await
    }

    /// Which of these users belong to `tenant`, called inside a read that shows their profiles.
    async fn members_among(
        &self,
        tx: &Tx,
        users: &[UserId],
        tenant: &TenantId,
    ) -> Result<Vec<UserId>, MembershipError> {
        let mut members = Vec::new();
        for user in users {
            if self.is_member_within(tx, &Subject::User(user.clone()), tenant).await? {
                members.push(user.clone());
            }
        }
        Ok(members)
    }
}

/// A request's tenant, and whether the caller belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// The request named no tenant.
    #[default]
    Unnamed,
    /// It named an invalid identifier, or more than one.
    Unreadable,
    /// The caller does not belong to the named tenant.
    Stranger,
    /// The caller belongs to this one.
    Member(Membership),
}

/// A caller's membership in the tenant that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The tenant.
    pub tenant: TenantId,
    /// The caller's roles in it.
    pub roles: Roles,
}

impl From<TenantId> for Membership {
    fn from(tenant: TenantId) -> Self {
        Self { tenant, roles: Roles::default() }
    }
}

/// Why memberships could not be read. The request is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A host's own store failed.
    #[error("the memberships cannot be read: {0}")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The identity's standing in the tenant that the request named, or else in the only tenant of its credential. A credential
/// that is limited to one tenant is a stranger to every other, independent of its owner's memberships.
pub(crate) async fn standing(
    memberships: Option<&dyn Memberships>,
    identity: &Identity,
    named: &Named,
) -> Result<Standing, MembershipError> {
    let limit = identity.principal().map_or(&TenantLimit::Unlimited, |principal| principal.credential.tenants());
    let tenant = match (named, limit) {
        (Named::Unreadable, _) => return Ok(Standing::Unreadable),
        (Named::Nothing, TenantLimit::Unlimited | TenantLimit::Nowhere) => return Ok(Standing::Unnamed),
        (Named::Tenant(_), TenantLimit::Nowhere) => return Ok(Standing::Stranger),
        (Named::Tenant(tenant), TenantLimit::Only(only)) if tenant != only => return Ok(Standing::Stranger),
        (Named::Nothing, TenantLimit::Only(tenant))
        | (Named::Tenant(tenant), TenantLimit::Unlimited | TenantLimit::Only(_)) => tenant,
    };
    let (Some(memberships), Some(principal)) = (memberships, identity.principal()) else {
        return Ok(Standing::Stranger);
    };
    let roles = memberships.membership(&principal.subject, tenant).await?;
    Ok(roles.map_or(Standing::Stranger, |roles| Standing::Member(Membership { tenant: tenant.clone(), roles })))
}
