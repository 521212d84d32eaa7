use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_http::Next;

use crate::accounts::AccountError;
use crate::accounts::Accounts;
use crate::audit::AuditKind;
use crate::core::Core;
use crate::credentials::{self, Held};
use crate::email::EmailAddress;
use crate::mailbox::{self, Holder, Method, ProveError};
use crate::password::{HashError, Requester, WeakPassword};
use crate::session::Client;
use crate::single_use::links::{Drawn, Links};
use crate::single_use::{IssuedToken, SingleUseStoreError};
use crate::users::{BoxError, User, UserStoreError};

/// Asking for a link, and setting a password with it.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    accounts: Accounts,
    pub(super) links: Arc<Links>,
}

/// What happens to everything else that has access to the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    End,
    Keep,
}

/// A password was set.
pub(super) struct Done {
    /// The `next` of the request for the link.
    pub(super) next: Option<Next>,
    /// The kinds of credentials that have ended.
    pub(super) ended: Vec<&'static str>,
    /// Those that stay.
    pub(super) kept: Vec<Held>,
}

/// Why no password was set.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResetError {
    /// The token is unknown, has another purpose, is used or expired, or is for a former address of the account.
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
    Prove(#[from] ProveError),
    /// The password is set.
    #[error("other credentials could not be ended: {0}")]
    Others(#[source] BoxError),
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, links: Arc<Links>) -> Self {
        Self { accounts: Accounts::new(core.clone()), links, core }
    }

    /// Mails a link if there is such an account, all of it in the background: neither the answer nor its time depends on
    /// the result, and a failure is only logged.
    pub(super) fn request(&self, drawn: Drawn, email: EmailAddress, next: Option<Next>, client: &Client) {
        let (core, links, remote) = (self.core.clone(), self.links.clone(), client.address());
        self.core.background.run_for(remote, "a password reset", async move {
            let mut event = core.audit.event(AuditKind::PasswordResetRequested).remote(remote);
            match core.users.store.find_by_email(&email).await {
                Ok(found) if found.user.disabled => {
                    event = event.user(&found.user.id).with("reason", "the account is disabled");
                }
                Ok(found) => {
                    event = event.user(&found.user.id);
                    if let Err(error) =
                        links.send(&drawn, &email, Some(&found.user.id), next.as_ref().map(Next::as_str), remote).await
                    {
                        tracing::error!(%error, "a password reset link was not mailed");
                    }
                }
                Err(UserStoreError::NotFound) => {
                    if let Some(changes) = &core.email_changes
                        && let Err(error) = changes.remind(&core, &email, remote).await
                    {
                        tracing::error!(%error, "a password reset link was not mailed");
                    }
                }
                Err(error) => tracing::error!(%error, "a password reset link was not mailed"),
            }
            core.audit.record(event.with("email", email.as_str())).await;
        });
    }

    /// Sets the password of the token's account, and ends what else has access to it unless `others` keeps it. A password that
    /// violates a rule does not use up the token.
    pub(super) async fn reset(
        &self,
        token: &Secret,
        password: Secret,
        others: Others,
        client: &Client,
    ) -> Result<Done, ResetError> {
        let token = self.links.find_live(token).await?.ok_or(ResetError::InvalidToken)?;
        let at = self.core.ambient.now();
        let user = self.owner(&token).await?;
        let password = self.core.accept_password(&user, password).await.map_err(ResetError::Users)??;
        let hash = self.core.passwords.hash(Requester::client(client.address()), &password).await?;
        let event = self.core.audit.event(AuditKind::PasswordResetCompleted).user(&user.id).remote(client.address());
        let event = self.core.audit.begin(event).await.map_err(|error| ResetError::Users(error.into()))?;
        if !self.links.spend(&token).await? {
            event.withdraw().await;
            return Err(ResetError::InvalidToken);
        }
        // First the claim, if it is one, and then the password, which must be the only remaining way to sign in.
        let proven = mailbox::prove(&self.core, user, at, Holder::Mailbox, Method::PasswordReset).await?;
        let user = &proven.user;
        self.accounts.replace_hash(&user.id, &hash).await?;
        let ended = match others {
            Others::End => credentials::end(&self.core, &user.id).await.map_err(ResetError::Others)?,
            Others::Keep => Vec::new(),
        };
        self.core.single_use.remove(&user.id, &user.email, Some(token.purpose)).await?;
        proven.audit_effect(&self.core, client, Method::PasswordReset).await;
        event.done_with(|event| if ended.is_empty() { event } else { event.with("dropped", ended.clone()) }).await;
        let kept = credentials::of(&self.core, &user.id).await.map_err(ResetError::Others)?;
        let next = token.next.as_deref().and_then(|text| self.core.redirects.next(text));
        Ok(Done { next, ended, kept })
    }

    async fn owner(&self, token: &IssuedToken) -> Result<User, ResetError> {
        let id = token.user_id.as_ref().ok_or(ResetError::InvalidToken)?;
        match self.core.users.store.find_by_id(id).await {
            Ok(user) if user.email == token.email && !user.disabled => Ok(user),
            Ok(_) | Err(UserStoreError::NotFound) => Err(ResetError::InvalidToken),
            Err(error) => Err(ResetError::Users(error)),
        }
    }
}
