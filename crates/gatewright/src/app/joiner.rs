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
        let member = Subject::User(user.clone());
        // Beside the roles that they have.
        let held = self.0.roles_of(tenant, &member).await?.unwrap_or_default();
        let all = held.iter().chain(roles.iter().map(String::as_str)).collect();
        self.0.put(tenant, &member, &all).await?;
        Ok(())
    }
}
