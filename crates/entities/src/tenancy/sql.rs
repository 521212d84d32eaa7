use async_trait::async_trait;
use gatewright_base::{Roles, Subject, TenantId, UserId};
use gatewright_db::Tx;
use gatewright_tenancy::SqlMemberships;

use super::{MembershipError, Memberships};

#[async_trait]
impl Memberships for SqlMemberships {
    async fn is_member(&self, subject: &Subject, tenant: &TenantId) -> Result<bool, MembershipError> {
        Ok(self.roles_of(tenant, subject).await?.is_some())
    }

    async fn membership(&self, subject: &Subject, tenant: &TenantId) -> Result<Option<Roles>, MembershipError> {
        Ok(self.roles_of(tenant, subject).await?)
    }

    async fn is_member_within(&self, tx: &Tx, subject: &Subject, tenant: &TenantId) -> Result<bool, MembershipError> {
        Ok(SqlMemberships::is_member_within(self, tx, tenant, subject).await?)
    }

    async fn members_among(
        &self,
        tx: &Tx,
        users: &[UserId],
        tenant: &TenantId,
    ) -> Result<Vec<UserId>, MembershipError> {
        Ok(SqlMemberships::members_among(self, tx, tenant, users).await?)
    }
}
