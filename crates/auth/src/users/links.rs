//! Links between users and identities at providers, and the four capabilities of a user store for them.

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use super::{NewPasswordlessUser, User, UserStoreError};

/// An identity at a provider, with its profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderLink {
    /// The provider's name in paths: `google`.
    pub provider: String,
    /// The provider's identifier of the person.
    pub provider_id: String,
    /// The address at the provider. Need not be the account's.
    pub email: Option<String>,
    /// The name to show.
    pub name: Option<String>,
    /// A picture's address, http or https.
    pub avatar_url: Option<String>,
}

/// A link in the listing of linked accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedAccount {
    /// The identity and its profile.
    pub link: ProviderLink,
    /// When it was linked.
    pub linked_at: Timestamp,
}

/// The result of a request to link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    /// It is linked now.
    Created,
    /// It was linked to this user already.
    AlreadyTheirs,
    /// It is linked to another user; nothing was changed.
    BoundToAnother,
    /// The user's sessions were ended since they were loaded; nothing was changed.
    Stale,
}

/// Whether a user's last link may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink<'a> {
    /// It may be removed: there is another way to sign in.
    MayGo,
    /// A link to another of these providers must remain. They are the providers that are configured now.
    Stays(&'a [String]),
}

impl LastLink<'_> {
    /// Whether a user who has links to the providers in `linked` may lose those to `provider`.
    pub fn allows<'l>(self, provider: &str, linked: impl IntoIterator<Item = &'l str>) -> bool {
        match self {
            Self::MayGo => true,
            Self::Stays(usable) => {
                linked.into_iter().any(|other| other != provider && usable.iter().any(|one| one == other))
            }
        }
    }
}

/// The result of a request to unlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlinked {
    /// It was removed.
    Removed,
    /// There was none.
    NotLinked,
    /// It would have been the last; nothing was changed.
    WasLast,
}

/// Finds and links identities at providers. Each operation is atomic across replicas.
#[async_trait]
pub trait OAuthLinks: Send + Sync {
    /// The user whom this identity is linked to. Link and user must come from one read: after a caller removes the
    /// links and then ends the sessions, no sign-in that still saw a link can continue.
    async fn find_linked(&self, provider: &str, provider_id: &str) -> Result<Option<User>, UserStoreError>;

    /// Links an identity to `user`, unless the sessions of the account were ended since `user` was loaded
    /// ([`User::sessions_valid_after`] changed): the caller is then no longer entitled. If several concurrent calls
    /// link one identity, one creates the link. Fails with [`UserStoreError::NotFound`] if the account is gone.
    async fn link(&self, user: &User, link: &ProviderLink) -> Result<Linked, UserStoreError>;

    /// Removes all links of this user, and returns how many there were.
    async fn drop_links(&self, user: &UserId) -> Result<u64, UserStoreError>;

    /// Updates the profile of an identity that signed in again. A store without profiles does nothing.
    async fn refresh_profile(&self, link: &ProviderLink) -> Result<(), UserStoreError> {
        let _ = link;
        Ok(())
    }
}

/// Creates users who sign in with a provider.
#[async_trait]
pub trait OAuthUserCreator: Send + Sync {
    /// Creates a user without a password together with their first link, both or neither. Returns `None` and changes
    /// nothing if the identity is linked already. Concurrency and errors are otherwise as for
    /// [`UserStore::create`](super::UserStore::create).
    async fn create_linked(
        &self,
        user: NewPasswordlessUser,
        link: &ProviderLink,
    ) -> Result<Option<User>, UserStoreError>;
}

/// Lists a user's links.
#[async_trait]
pub trait AccountLister: Send + Sync {
    /// All of them, the oldest first.
    async fn linked_accounts(&self, user: &UserId) -> Result<Vec<LinkedAccount>, UserStoreError>;
}

/// Removes links.
#[async_trait]
pub trait AccountUnlinker: Send + Sync {
    /// Removes every identity of `user` at `provider`, if `last` [allows](LastLink::allows) it for the current links.
    /// This must hold for concurrent calls too: if two calls together would remove the last link, one of them is
    /// refused.
    async fn unlink(&self, user: &UserId, provider: &str, last: LastLink<'_>) -> Result<Unlinked, UserStoreError>;
}
