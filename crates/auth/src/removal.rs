use gatewright_base::UserId;

use crate::audit::AuditKind;
use crate::{AccountError, Accounts};

impl Accounts {
    /// Deletes an account for good: the user, their sessions, JWTs, second factor, API tokens, provider links, mailed
    /// links and memberships in tenants. The audit log keeps the account's id, without addresses. Records of entities stay; one that refers to the
    /// user by a relation follows that relation's `on_delete`, and one that must not lose its user refuses with
    /// [`UserStoreError::Referenced`](crate::users::UserStoreError::Referenced), in which case nothing is deleted.
    pub async fn delete(&self, id: &UserId) -> Result<(), AccountError> {
        let core = self.core();
        let user = core.users.store.find_by_id(id).await?;
        let deleter = core.users.deleter.as_ref().ok_or(AccountError::Unsupported("deleting users"))?;
        // First: without the user no session, JWT or token is good for anything, and a refusal has changed nothing.
        deleter.delete(id).await?;
        core.sessions.remove_all(id, None).await?;
        core.mint.remove_second_factors(id).await.map_err(AccountError::SecondFactor)?;
        for kind in &core.credentials {
            kind.drop_all(id).await.map_err(AccountError::Credentials)?;
        }
        core.single_use.remove(id, &user.email, None).await?;
        if let Some(changes) = &core.email_changes {
            changes.forget(id).await.map_err(|error| AccountError::Credentials(error.into()))?;
        }
        if let Some(invitations) = &core.invitations {
            invitations.forget(id, &user.email).await.map_err(AccountError::invitations)?;
        }
        if let Some(tenants) = &core.tenants {
            tenants.forget(id, user.email.as_str()).await.map_err(AccountError::Tenants)?;
        }
        if let Some(sink) = core.audit.sink() {
            sink.forget(id, &user.email).await.map_err(AccountError::Audit)?;
        }
        let event = core.audit.event(AuditKind::AccountDeleted).user(id);
        core.audit.record(event.with("method", "operator")).await;
        Ok(())
    }
}
