use std::sync::Arc;

use gatewright_base::UserId;
use gatewright_db::{Error, Tx};
use gatewright_http::Problem;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::fresh::{Fresh, FreshError, Given};
use crate::session::{Client, Session};
use crate::sign_in_methods::{Ways, in_one_database};
use crate::users::{AccountLister, AccountUnlinker, LastLink, LinkedAccount, Unlinked, UserStoreError, UsersWithin};

/// Looking at one's links, and removing one.
pub(crate) struct Flow {
    core: Arc<Core>,
    fresh: Fresh,
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
        Self { fresh: Fresh::new(core.clone()), core, lister, unlinker }
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
        given: &Given,
        client: &Client,
    ) -> Result<Unlinked, UnlinkError> {
        self.fresh.require_unless_young(caller, given, client, "removing a link").await?;
        let user = &caller.user().id;
        let unlinked = match in_one_database(&self.core) {
            Some(users) => self.remove_within(users, user, provider).await?,
            None => self.remove_outside(user, provider).await?,
        };
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

    /// Decides and removes in one transaction, under the lock of the account.
    async fn remove_within(
        &self,
        users: Arc<dyn UsersWithin>,
        user: &UserId,
        provider: &str,
    ) -> Result<Unlinked, UserStoreError> {
        let (core, db) = (self.core.clone(), users.database().clone());
        let (user, provider) = (user.clone(), provider.to_owned());
        let remove = async move |tx: &Tx| -> Result<Unlinked, Error> {
            let Some(ways) = Ways::within(&core, &*users, tx, &user).await? else { return Ok(Unlinked::NotLinked) };
            if !users.linked(tx, &user).await?.contains(&provider) {
                return Ok(Unlinked::NotLinked);
            }
            if !ways.remain_without_provider(&provider) {
                return Ok(Unlinked::WasLast);
            }
            users.unlink(tx, &user, &provider).await?;
            Ok(Unlinked::Removed)
        };
        db.write(remove).await.map_err(UserStoreError::transport)
    }

    /// The same with stores of the program's own.
    async fn remove_outside(&self, user: &UserId, provider: &str) -> Result<Unlinked, UserStoreError> {
        let _one = self.core.removals.lock().await;
        let usable: Vec<_> = self.core.oauth_providers.iter().map(|known| known.name.clone()).collect();
        let by_other_means = Ways::of(&self.core, user).await?.remain_without_providers();
        let last = if by_other_means { LastLink::MayGo } else { LastLink::Stays(&usable) };
        self.unlinker.unlink(user, provider, last).await
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
