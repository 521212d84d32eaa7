use std::sync::Arc;

use gatewright_base::Secret;

use crate::accounts::AccountError;
use crate::audit::AuditKind;
use crate::claim::{ClaimError, drop_credentials};
use crate::password::{HashError, WeakPassword};
use crate::session::Client;
use crate::single_use::links::Links;
use crate::single_use::{IssuedToken, SingleUseStoreError};
use crate::users::{User, UserStoreError};
use crate::{Accounts, Core, Credentials, EmailAddress};

/// Asking for a link, and setting a password with it.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    accounts: Accounts,
    links: Arc<Links>,
}

/// Why no password was set.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResetError {
    /// No such token, or one of another purpose, spent, expired, or for an address that the account has no more.
    #[error("invalid or expired token")]
    InvalidToken,
    #[error(transparent)]
    WeakPassword(#[from] WeakPassword),
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error(transparent)]
    Users(UserStoreError),
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, links: Links) -> Self {
        Self { accounts: Accounts::new(core.clone()), links: Arc::new(links), core }
    }

    /// Mails a link if there is such an account, all of it in the background: neither the answer nor its time depends on
    /// what is found, and a failure is for the log.
    pub(super) fn request(&self, email: &str, client: &Client) {
        let Ok(email) = EmailAddress::parse(email) else { return };
        let (core, links, remote) = (self.core.clone(), self.links.clone(), client.address());
        self.core.background.run("a password reset", async move {
            let mut event = core.audit.event(AuditKind::PasswordResetRequested).remote(remote);
            match core.users.store.find_by_email(&email).await {
                Ok(found) => {
                    event = event.user(&found.user.id);
                    if let Err(error) = links.send(&email, Some(&found.user.id), None).await {
                        tracing::error!(%error, "a password reset was asked for and not mailed");
                    }
                }
                Err(UserStoreError::NotFound) => {}
                Err(error) => tracing::error!(%error, "a password reset was asked for and not mailed"),
            }
            core.audit.record(event.with("email", email.as_str())).await;
        });
    }

    /// Sets the password of the token's account. A password that is no good costs no token.
    pub(super) async fn reset(&self, token: &Secret, password: Secret, client: &Client) -> Result<(), ResetError> {
        let token = self.links.find_live(token).await?.ok_or(ResetError::InvalidToken)?;
        let password = self.core.passwords.accept(password)?;
        let user = self.owner(&token).await?;
        let hash = self.core.passwords.hash(&password).await?;
        if !self.links.spend(&token).await? {
            return Err(ResetError::InvalidToken);
        }
        self.accounts.replace_hash(&user.id, &hash).await?;
        self.core.single_use.remove(&user.id, &user.email, Some(token.purpose)).await?;
        if !user.email_verified {
            self.mailbox_is_proven(&user, client).await?;
        }
        let event = self.core.audit.event(AuditKind::PasswordResetCompleted).user(&user.id);
        self.core.audit.record(event.remote(client.address())).await;
        Ok(())
    }

    async fn owner(&self, token: &IssuedToken) -> Result<User, ResetError> {
        let id = token.user_id.as_ref().ok_or(ResetError::InvalidToken)?;
        match self.core.users.store.find_by_id(id).await {
            Ok(user) if user.email == token.email => Ok(user),
            Ok(_) | Err(UserStoreError::NotFound) => Err(ResetError::InvalidToken),
            Err(error) => Err(ResetError::Users(error)),
        }
    }

    /// Ends the other ways to sign in of an account that whoever registered it may not own. API tokens and the second
    /// factor stay, as after any reset.
    async fn mailbox_is_proven(&self, user: &User, client: &Client) -> Result<(), ResetError> {
        let dropped = drop_credentials(&self.core, &user.id, Credentials::signs_in).await?;
        let Some(verifier) = &self.core.users.email_verifier else { return Ok(()) };
        verifier.verify_email(&user.id, &user.email).await.map_err(ClaimError::from)?;
        let event = self.core.audit.event(AuditKind::EmailVerified).user(&user.id).remote(client.address());
        let event = event.with("method", "password_reset").with("email", user.email.as_str());
        self.core.audit.record(event.with("dropped", dropped)).await;
        Ok(())
    }
}
