//! The ways to sign in: for the sign-in screen, and for the rule that an account keeps one of them.
//!
//! A way is removed in one transaction that first locks the account ([`Ways::within`]): of two requests that each remove one of
//! the last two, one finds the other's way gone and is refused. Nothing is removed before it is decided.

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::UserId;
use gatewright_db::{Db, Error, Tx};

use crate::core::Core;
use crate::users::{BoxError, User, UserStoreError, UsersWithin};

/// A kind of credential that a user signs in with, besides passwords and providers: passkeys. A user who has one may
/// remove the last link to a provider.
#[async_trait]
pub(crate) trait SignInCredential: Send + Sync + 'static {
    /// How many of them this user can sign in with.
    async fn usable(&self, user: &UserId) -> Result<u64, BoxError>;

    /// The database whose transactions [`usable_within`](Self::usable_within) accepts, if they are stored in one.
    fn database(&self) -> Option<&Db>;

    /// The same as [`usable`](Self::usable), in a transaction of that database.
    async fn usable_within(&self, tx: &Tx, user: &UserId) -> Result<u64, Error>;
}

/// What a user can sign in with. A magic link does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ways {
    password: bool,
    /// The providers of links, those that are still configured.
    providers: Vec<String>,
    /// Credentials of plugins.
    credentials: u64,
}

impl Ways {
    /// Whether one remains without one of the credentials.
    pub(crate) fn remain_without_a_credential(&self) -> bool {
        self.password || self.credentials > 1 || !self.providers.is_empty()
    }

    /// Whether one remains without the links to `provider`.
    pub(crate) fn remain_without_provider(&self, provider: &str) -> bool {
        self.password || self.credentials > 0 || self.providers.iter().any(|other| other != provider)
    }

    /// Whether one remains without any link.
    pub(crate) fn remain_without_providers(&self) -> bool {
        self.password || self.credentials > 0
    }

    /// Locks the account and reads its ways, in one transaction with what follows. `None` if the account is gone.
    pub(crate) async fn within(
        core: &Core,
        users: &dyn UsersWithin,
        tx: &Tx,
        user: &UserId,
    ) -> Result<Option<Self>, Error> {
        let Some(User { password_set: password, .. }) = users.lock(tx, user).await? else { return Ok(None) };
        let providers = usable(core, users.linked(tx, user).await?);
        let mut credentials = 0;
        for kind in &core.sign_in_credentials {
            credentials += kind.usable_within(tx, user).await?;
        }
        Ok(Some(Self { password, providers, credentials }))
    }

    /// Reads the ways of an account whose parts are in stores of the program's own. Call it while holding
    /// [`Core::removals`].
    pub(crate) async fn of(core: &Core, user: &UserId) -> Result<Self, UserStoreError> {
        let password = match &core.users.password_checker {
            Some(checker) => checker.has_password(user).await?,
            None => false,
        };
        let linked = match &core.users.account_lister {
            Some(lister) => lister.linked_accounts(user).await?,
            None => Vec::new(),
        };
        let providers = usable(core, linked.into_iter().map(|linked| linked.link.provider).collect());
        let mut credentials = 0;
        for kind in &core.sign_in_credentials {
            credentials += kind.usable(user).await.map_err(UserStoreError::transport)?;
        }
        Ok(Self { password, providers, credentials })
    }
}

/// The user store, if accounts and every kind of credential are in one database. Otherwise stores of the program's own take
/// part, which share no transaction: then one removal runs at a time in this process.
pub(crate) fn in_one_database(core: &Core) -> Option<Arc<dyn UsersWithin>> {
    let users = core.users.within.clone()?;
    let together =
        core.sign_in_credentials.iter().all(|kind| kind.database().is_some_and(|db| users.database().is(db)));
    together.then_some(users)
}

fn usable(core: &Core, linked: Vec<String>) -> Vec<String> {
    let is_known = |name: &String| core.oauth_providers.iter().any(|known| known.name == *name);
    linked.into_iter().filter(is_known).collect()
}

/// A link on the sign-in screen: another method, or the way to a new password.
#[derive(Debug, Clone)]
pub(crate) struct SignInLink {
    /// The key of its text, or its words.
    pub(crate) label: String,
    /// The provider that it leads to. Its text has the value `name`.
    pub(crate) provider: Option<KnownProvider>,
    pub(crate) href: String,
}

/// A provider that people can sign in with.
#[derive(Debug, Clone)]
pub(crate) struct KnownProvider {
    /// Its word in paths.
    pub(crate) name: String,
    /// Its name for users.
    pub(crate) label: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_decided_by_what_remains() {
        let ways = |password, providers: &[&str], credentials| Ways {
            password,
            providers: providers.iter().map(|name| (*name).to_owned()).collect(),
            credentials,
        };
        for (ways, credential, alpha) in [
            (ways(false, &[], 1), false, true),
            (ways(false, &[], 2), true, true),
            (ways(true, &[], 1), true, true),
            (ways(false, &["alpha"], 1), true, true),
            (ways(false, &["alpha", "alpha"], 0), true, false),
            (ways(false, &["alpha", "beta"], 0), true, true),
            (ways(true, &["alpha"], 0), true, true),
        ] {
            let found = (ways.remain_without_a_credential(), ways.remain_without_provider("alpha"));
            assert_eq!(found, (credential, alpha), "{ways:?}");
        }
    }
}
