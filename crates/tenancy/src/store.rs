use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Roles, Subject, TenantId, UserId};
use gatewright_db::{Db, Error, Share, Tx};
use jiff::Timestamp;

/// The store of the tenants that accounts manage. [`SqlMemberships`](crate::SqlMemberships) is the built-in one.
///
/// A store calls [`permits`](crate::permits) with the roles that the actor has at the moment of the change, and keeps
/// the last owner: if two owners leave at once, one stays.
#[async_trait]
pub trait TenantStore: Send + Sync + 'static {
    /// The tenants of a user, by id.
    async fn tenants_of(&self, user: &UserId) -> Result<Vec<TenantOfUser>, TenantStoreError>;

    /// Keeps a new tenant and its first owner; `false` if the user belongs to `most` tenants or more already.
    async fn create(&self, tenant: &NewTenant, most: u32) -> Result<bool, TenantStoreError>;

    /// The tenant's display name, for invited users. If absent, its id is shown.
    async fn name(&self, tenant: &TenantId) -> Result<Option<String>, TenantStoreError> {
        let _ = tenant;
        Ok(None)
    }

    /// The roles of a member; `None` if the account is not a member. An invitation counts as long as its sender's roles permit
    /// sending it.
    async fn roles(&self, tenant: &TenantId, member: &Subject) -> Result<Option<Roles>, TenantStoreError>;

    /// At most `limit` members that are users, by id, starting after `after` if it is given. `share` is that of the caller: one who
    /// lists many must not delay the requests of others. Service accounts belong to operators: members do not see them.
    async fn users(
        &self,
        tenant: &TenantId,
        after: Option<&UserId>,
        limit: u32,
        share: Share,
    ) -> Result<Vec<TenantMember>, TenantStoreError>;

    /// Gives a member other roles.
    async fn set_roles(
        &self,
        tenant: &TenantId,
        member: &UserId,
        roles: &Roles,
        actor: &UserId,
    ) -> Result<Changed, TenantStoreError>;

    /// Ends a membership: another's, or the actor's own.
    async fn remove(&self, tenant: &TenantId, member: &UserId, actor: &UserId) -> Result<Changed, TenantStoreError>;

    /// Makes `user` a member with these roles, in addition to their current ones: they accept an invitation. A tenant has at most
    /// `most_members`. May be called again for the same invitation if the server stopped before it was used up.
    async fn join(
        &self,
        tenant: &TenantId,
        user: &UserId,
        roles: &Roles,
        most_members: u32,
    ) -> Result<Joined, TenantStoreError>;

    /// Joins in a transaction that spends the invitation. Absent: the invitation is claimed, the user [joins](Self::join), and
    /// then the invitation is spent.
    fn within(self: Arc<Self>) -> Option<Arc<dyn TenantsWithin>> {
        None
    }

    /// Ends all memberships of a user who deletes their account. A tenant keeps its last owner as long as it has other
    /// users: if there are such tenants, they are returned, and nothing is changed. By default, [`forget`](Self::forget)
    /// ends all memberships without this check.
    async fn depart(&self, user: &UserId) -> Result<Vec<TenantId>, TenantStoreError> {
        let _ = user;
        Ok(Vec::new())
    }

    /// Removes the data about a deleted account.
    async fn forget(&self, user: &UserId) -> Result<u64, TenantStoreError>;
}

/// Adds members in a transaction of the caller.
#[async_trait]
pub trait TenantsWithin: Send + Sync {
    /// The database whose transactions [`join`](Self::join) uses.
    fn database(&self) -> &Db;

    /// [`TenantStore::join`], in a transaction of [`database`](Self::database).
    async fn join(
        &self,
        tx: &Tx,
        tenant: &TenantId,
        user: &UserId,
        roles: &Roles,
        most_members: u32,
    ) -> Result<Joined, Error>;
}

/// A tenant as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantOfUser {
    /// Its id.
    pub id: TenantId,
    /// Its name; the id for a tenant without a name.
    pub name: String,
    /// The user's roles in it.
    pub roles: Roles,
}

/// A new tenant.
#[derive(Debug, Clone)]
pub struct NewTenant {
    /// Its generated id.
    pub id: TenantId,
    /// Its name: one line, checked.
    pub name: String,
    /// Its first owner.
    pub owner: UserId,
}

/// A member as the managers of the tenant see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantMember {
    /// The account.
    pub subject: Subject,
    /// Its roles in the tenant.
    pub roles: Roles,
    /// Since when it belongs to it.
    pub since: Timestamp,
}

/// The result of accepting an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// The user is a member, with these roles from now on.
    Member(Roles),
    /// The tenant's limit of members is reached. Nothing is changed.
    Full,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is made.
    Done,
    /// The actor is not a member of the tenant.
    Stranger,
    /// The actor's roles do not permit it.
    Forbidden,
    /// The member does not exist.
    Missing,
    /// The tenant would be left without an owner.
    LastOwner,
}

/// The store of tenants could not do its work, so nothing is known.
#[derive(Debug, thiserror::Error)]
#[error("the store of tenants failed: {0}")]
pub struct TenantStoreError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl TenantStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl From<gatewright_db::Error> for TenantStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}
