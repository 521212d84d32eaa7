use gatewright_base::UserId;

use crate::accounts::{AccountError, Accounts};
use crate::audit::AuditKind;
use crate::users::UserStoreError;

impl Accounts {
    /// Disables an account: its sessions and JWTs end permanently, its connected programs are disconnected, mailed
    /// links no longer work, and API tokens are refused until [`enable`](Self::enable). Streams end within a heartbeat.
    /// A sign-in gets the same answer as with a wrong password; the audit log has the reason.
    pub async fn disable(&self, id: &UserId) -> Result<(), AccountError> {
        let core = self.core();
        let user = core.users.store.find_by_id(id).await?;
        let disabler = core.users.disabler.as_ref().ok_or(AccountError::Unsupported("disabling users"))?;
        // This comes first: even if a later step fails, all credentials are already refused.
        disabler.disable(id, core.ambient.now()).await?;
        let sessions = core.sessions.remove_all(id, None).await?;
        for kind in core.credentials.iter().filter(|kind| kind.ends_when_disabled()) {
            kind.drop_all(id).await.map_err(AccountError::Credentials)?;
        }
        core.single_use.remove(id, &user.email, None).await?;
        let event = core.audit.event(AuditKind::AccountDisabled).user(id);
        core.audit.record(event.with("method", "operator").with("sessions", sessions)).await;
        Ok(())
    }

    /// Enables a disabled account: its owner can sign in again, and its API tokens are valid again. Fails with
    /// [`AccountError::BeingDeleted`] if the account is being deleted.
    pub async fn enable(&self, id: &UserId) -> Result<(), AccountError> {
        let core = self.core();
        let disabler = core.users.disabler.as_ref().ok_or(AccountError::Unsupported("disabling users"))?;
        if let Some(deletions) = &core.deletions
            && deletions.is_closed(id).await?
        {
            return Err(AccountError::BeingDeleted);
        }
        let event = core.audit.event(AuditKind::AccountEnabled).user(id).with("method", "operator");
        let event = core.audit.begin(event).await.map_err(UserStoreError::from)?;
        disabler.enable(id).await?;
        event.done().await;
        Ok(())
    }
}
