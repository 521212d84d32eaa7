use std::sync::Arc;

use gatewright_base::UserId;
use gatewright_http::Problem;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::fresh::{FreshError, check_young};
use crate::session::{Client, Session};
use crate::users::{AccountLister, AccountUnlinker, LastLink, LinkedAccount, Unlinked, UserStoreError};

/// Looking at one's links, and removing one.
pub(crate) struct Flow {
    core: Arc<Core>,
    lister: Arc<dyn AccountLister>,
    unlinker: Arc<dyn AccountUnlinker>,
}

/// Why a link was not removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnlinkError {
    #[error(transparent)]
    Fresh(#[from] FreshError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, lister: Arc<dyn AccountLister>, unlinker: Arc<dyn AccountUnlinker>) -> Self {
        Self { core, lister, unlinker }
    }

    /// The caller's links, the oldest first.
    pub(crate) async fn list(&self, caller: &Session) -> Result<Vec<LinkedAccount>, UserStoreError> {
        self.lister.linked_accounts(&caller.user().id).await
    }

    /// Removes the caller's links to one provider, unless nothing to sign in with would remain. In an open browser,
    /// another person could otherwise leave the owner with fewer ways to sign in.
    pub(crate) async fn unlink(
        &self,
        caller: &Session,
        provider: &str,
        client: &Client,
    ) -> Result<Unlinked, UnlinkError> {
        check_young(&self.core, caller).await?;
        let user = &caller.user().id;
        let usable: Vec<_> = self.core.oauth_providers.iter().map(|known| known.name.clone()).collect();
        let has_password = match &self.core.users.password_checker {
            Some(checker) => checker.has_password(user).await?,
            None => false,
        };
        let by_credential = !has_password && self.has_sign_in_credential(user).await?;
        let last = if has_password || by_credential { LastLink::MayGo } else { LastLink::Stays(&usable) };
        let before = if by_credential { self.lister.linked_accounts(user).await? } else { Vec::new() };
        let unlinked = self.unlinker.unlink(user, provider, last).await?;
        // Checked once more: if two requests remove two ways to sign in, at least one of them restores its own.
        if unlinked == Unlinked::Removed && by_credential && !self.has_sign_in_credential(user).await? {
            self.link_again(caller, provider, &before).await?;
            return Ok(Unlinked::WasLast);
        }
        if unlinked == Unlinked::Removed {
            #[cfg(feature = "oauth")]
            if let Some(tokens) = &self.core.oauth_tokens
                && let Err(error) = tokens.remove(user, provider).await
            {
                tracing::error!(%error, provider, "the tokens of an unlinked provider could not be removed");
            }
            let event = self.core.audit.event(AuditKind::OAuthUnlinked).user(user).remote(client.address());
            self.core.audit.record(event.with("provider", provider)).await;
        }
        Ok(unlinked)
    }

    /// Whether the account has a passkey or the like.
    async fn has_sign_in_credential(&self, user: &UserId) -> Result<bool, UserStoreError> {
        for credential in &self.core.sign_in_credentials {
            if credential.is_usable(user).await.map_err(UserStoreError::transport)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn link_again(
        &self,
        caller: &Session,
        provider: &str,
        before: &[LinkedAccount],
    ) -> Result<(), UserStoreError> {
        let Some(links) = &self.core.users.oauth_links else { return Ok(()) };
        for linked in before.iter().filter(|linked| linked.link.provider == provider) {
            links.link(caller.user(), &linked.link).await?;
        }
        Ok(())
    }
}

impl From<UnlinkError> for Problem {
    fn from(error: UnlinkError) -> Self {
        match error {
            UnlinkError::Fresh(error) => error.into(),
            UnlinkError::Users(error) => error.into(),
        }
    }
}
