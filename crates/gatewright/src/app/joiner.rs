use async_trait::async_trait;
use gatewright_auth::plugins::invitations::TenantJoiner;
use gatewright_auth::users::BoxError;
use gatewright_base::{Ambient, Subject, TenantId, UserId};
use gatewright_db::Db;
use gatewright_entities::tenancy::SqlMemberships;

/// Makes members of the tenants of multi-tenant entities of those who accept an invitation.
pub(super) struct Joiner(SqlMemberships);

impl Joiner {
    pub(super) fn new(db: &Db, ambient: &Ambient) -> Self {
        Self(SqlMemberships::new(db.clone(), ambient.clone()))
    }
}

#[async_trait]
impl TenantJoiner for Joiner {
    async fn join(&self, user: &UserId, tenant: &TenantId, roles: &[String]) -> Result<(), BoxError> {
        if !roles.is_empty() {
            return Err("memberships have no roles".into());
        }
        self.0.add(tenant, &Subject::User(user.clone())).await?;
        Ok(())
    }
}
