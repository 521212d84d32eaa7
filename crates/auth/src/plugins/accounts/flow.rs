use std::sync::Arc;

use crate::Core;
use crate::audit::AuditKind;
use crate::session::{Client, Session};
use crate::users::{AccountLister, AccountUnlinker, LastLink, LinkedAccount, Unlinked, UserStoreError};

/// Looking at one's links, and removing one.
pub(crate) struct Flow {
    core: Arc<Core>,
    lister: Arc<dyn AccountLister>,
    unlinker: Arc<dyn AccountUnlinker>,
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, lister: Arc<dyn AccountLister>, unlinker: Arc<dyn AccountUnlinker>) -> Self {
        Self { core, lister, unlinker }
    }

    /// The caller's links, the oldest first.
    pub(crate) async fn list(&self, caller: &Session) -> Result<Vec<LinkedAccount>, UserStoreError> {
        self.lister.linked_accounts(&caller.user().id).await
    }

    /// Removes the caller's links to one provider, unless nothing to sign in with would remain.
    pub(crate) async fn unlink(
        &self,
        caller: &Session,
        provider: &str,
        client: &Client,
    ) -> Result<Unlinked, UserStoreError> {
        let user = &caller.user().id;
        let usable: Vec<_> = self.core.oauth_providers.iter().map(|known| known.name.clone()).collect();
        let last = match &self.core.users.password_checker {
            Some(checker) if checker.has_password(user).await? => LastLink::MayGo,
            _ => LastLink::Stays(&usable),
        };
        let unlinked = self.unlinker.unlink(user, provider, last).await?;
        if unlinked == Unlinked::Removed {
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
}
