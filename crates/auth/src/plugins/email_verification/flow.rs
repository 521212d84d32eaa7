use std::sync::Arc;

use gatewright_base::Secret;

use crate::Core;
use crate::audit::AuditKind;
use crate::session::{Client, Session};
use crate::single_use::SingleUseStoreError;
use crate::single_use::links::Links;
use crate::users::{EmailVerifier, UserStoreError};

/// Asking for a link, and following it.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    pub(super) links: Links,
    pub(super) verifier: Arc<dyn EmailVerifier>,
}

/// Why nothing was verified.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifyError {
    /// No such token, or one of another purpose, expired, or for an address that the account has no more.
    #[error("invalid or expired token")]
    InvalidToken,
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error(transparent)]
    Users(UserStoreError),
}

impl Flow {
    /// Mails a link to the caller's own address.
    pub(super) async fn send(&self, caller: &Session, client: &Client) -> Result<(), SingleUseStoreError> {
        let user = caller.user();
        self.links.send(&user.email, Some(&user.id), None).await?;
        let event = self.core.audit.event(AuditKind::EmailVerificationRequested).user(&user.id);
        self.core.audit.record(event.remote(client.address()).with("email", user.email.as_str())).await;
        Ok(())
    }

    /// Records the mailbox as proven. A token that was spent already, within its time and while its address is still
    /// the verified one, does nothing and is fine.
    pub(super) async fn verify(&self, token: &Secret, client: &Client) -> Result<(), VerifyError> {
        let token = self.links.find_in_time(token).await?.ok_or(VerifyError::InvalidToken)?;
        let id = token.user_id.as_ref().ok_or(VerifyError::InvalidToken)?;
        let user = self.core.users.store.find_by_id(id).await?;
        if user.email != token.email || (token.spent && !user.email_verified) {
            return Err(VerifyError::InvalidToken);
        }
        if token.spent {
            return Ok(());
        }
        // Recorded first and spent afterwards, so that whoever finds the token spent finds the address verified.
        self.verifier.verify_email(id, &token.email).await?;
        // Of any number who follow the link at once, one spends it. Whoever that is tells, also where another's verification
        // came before this one looked at the user: else nobody would.
        if self.links.spend(&token).await? {
            let event = self.core.audit.event(AuditKind::EmailVerified).user(id).remote(client.address());
            let event = event.with("method", "email_verification").with("email", token.email.as_str());
            self.core.audit.record(event).await;
        }
        Ok(())
    }
}

impl From<UserStoreError> for VerifyError {
    fn from(error: UserStoreError) -> Self {
        match error {
            UserStoreError::NotFound => Self::InvalidToken,
            error => Self::Users(error),
        }
    }
}
