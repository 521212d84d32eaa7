//! What a user store knows of identities at providers: the links, and the four abilities around them.

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use super::{NewPasswordlessUser, User, UserStoreError};

/// An identity at a provider, with the profile it shows there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderLink {
    /// The provider's word in paths: `google`.
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

/// A link as the accounts listing tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedAccount {
    /// The identity and its profile.
    pub link: ProviderLink,
    /// When it was linked.
    pub linked_at: Timestamp,
}

/// What became of a wish to link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    /// It is linked now.
    Created,
    /// It was linked to this user already.
    AlreadyTheirs,
    /// It is linked to somebody else, and stays so.
    BoundToAnother,
    /// The user's sessions were ended since they were loaded; nothing was changed.
    Stale,
}

/// What becomes of a user's last link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink<'a> {
    /// It may be removed: there is another way to sign in.
    MayGo,
    /// It stays: a link to another of these providers, which are those that people can sign in with at present, must
    /// remain.
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

/// What became of a wish to unlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlinked {
    /// It is gone.
    Removed,
    /// There was none.
    NotLinked,
    /// It would have been the last; nothing was changed.
    WasLast,
}

/// Finds and binds identities at providers. Each operation is one atomic step, for any number of replicas.
#[async_trait]
pub trait OAuthLinks: Send + Sync {
    /// The user whom this identity is linked to, as they are in the moment in which the link is there: both come of one
    /// read, so that whoever drops links and then ends sessions leaves no sign-in behind that still saw the link.
    async fn find_linked(&self, provider: &str, provider_id: &str) -> Result<Option<User>, UserStoreError>;

    /// Links an identity to `user`, unless the sessions of the account were ended since `user` was loaded
    /// ([`User::sessions_valid_after`] moved): what entitled the caller holds no more. Of concurrent calls for one
    /// identity one creates the link. [`UserStoreError::NotFound`] when the account is gone.
    async fn link(&self, user: &User, link: &ProviderLink) -> Result<Linked, UserStoreError>;

    /// Drops all links of this user, and returns how many there were.
    async fn drop_links(&self, user: &UserId) -> Result<u64, UserStoreError>;

    /// Keeps the profile of an identity that signed in again. A store that keeps no profiles does nothing.
    async fn refresh_profile(&self, link: &ProviderLink) -> Result<(), UserStoreError> {
        let _ = link;
        Ok(())
    }
}

/// Creates users who come by a provider.
#[async_trait]
pub trait OAuthUserCreator: Send + Sync {
    /// Creates a user without a password together with their first link, both or neither. `None`, and nothing changed, if
    /// the identity is linked already; otherwise concurrency and errors as for
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
    /// Removes every identity of `user` at `provider`, if `last` [allows](LastLink::allows) it with the links that there
    /// are in that moment. That holds for concurrent calls too: of two that would each leave the other's link, one is
    /// refused.
    async fn unlink(&self, user: &UserId, provider: &str, last: LastLink<'_>) -> Result<Unlinked, UserStoreError>;
}
