use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Roles, UserId};
use gatewright_db::Share;

use super::capability::{
    EmailChanger, EmailVerifier, GuestUsers, HashSettings, PasswordChecker, PasswordSetter, PasswordlessUsers,
    SignOutEverywhere, UserDeleter, UserDisabler, UserLister, UserProfiles, UsersWithin,
};
use super::links::{AccountLister, AccountUnlinker, OAuthLinks, OAuthUserCreator};
use super::{NewUser, User, UserStoreError, UserWithHash};
use crate::email::EmailAddress;

/// Stores accounts. A host application either implements this trait or uses [`SqlUserStore`](super::SqlUserStore).
///
/// Four operations are required. A store offers an optional capability by overriding its accessor. Each accessor is
/// called once, when [`Auth`](crate::Auth) is built, so that a plugin that needs a missing capability fails at start
/// and not at a request.
///
/// ```
/// use std::sync::Arc;
/// use gatewright_auth::users::{UserLister, UserStore};
/// # use gatewright_auth::{EmailAddress, users::*};
/// # use gatewright_base::{Roles, UserId};
/// # struct MyStore;
/// # #[async_trait::async_trait] impl UserLister for MyStore {
/// #     async fn list(&self, _: ListUsers) -> Result<UserPage, UserStoreError> { Err(UserStoreError::NotFound) }
/// # }
/// #[async_trait::async_trait]
/// impl UserStore for MyStore {
/// #     async fn find_by_email(&self, _: &EmailAddress) -> Result<UserWithHash, UserStoreError> { Err(UserStoreError::NotFound) }
/// #     async fn find_by_id(&self, _: &UserId) -> Result<User, UserStoreError> { Err(UserStoreError::NotFound) }
/// #     async fn create(&self, _: NewUser) -> Result<User, UserStoreError> { Err(UserStoreError::EmailTaken) }
/// #     async fn update_roles(&self, _: &UserId, _: &Roles) -> Result<(), UserStoreError> { Ok(()) }
///     // … the four operations …
///     fn user_lister(self: Arc<Self>) -> Option<Arc<dyn UserLister>> {
///         Some(self)
///     }
/// }
/// ```
#[async_trait]
pub trait UserStore: Send + Sync + 'static {
    /// The user with this address, and the hash of their password.
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError>;

    /// The user with this id. Called on every authenticated request, so the column needs an index.
    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError>;

    /// The users with these ids that exist, in any order. `share` is that of the caller who lists them: a caller who lists many
    /// must not delay the requests of others.
    async fn find_among(&self, ids: &[UserId], share: Share) -> Result<Vec<User>, UserStoreError> {
        let _ = share;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            match self.find_by_id(id).await {
                Ok(user) => found.push(user),
                Err(UserStoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Creates a user. If several concurrent calls have the same address, exactly one succeeds; the others get
    /// [`UserStoreError::EmailTaken`].
    async fn create(&self, user: NewUser) -> Result<User, UserStoreError>;

    /// Replaces the roles.
    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError>;

    /// Lists users for trusted server code. Absent: listing fails with an error, and never returns an empty list.
    fn user_lister(self: Arc<Self>) -> Option<Arc<dyn UserLister>> {
        None
    }
    /// Deletes users. Absent: an account cannot be deleted.
    fn user_deleter(self: Arc<Self>) -> Option<Arc<dyn UserDeleter>> {
        None
    }
    /// Disables users. Absent: an account cannot be disabled.
    fn user_disabler(self: Arc<Self>) -> Option<Arc<dyn UserDisabler>> {
        None
    }
    /// Changes addresses. Absent: no change of email.
    fn email_changer(self: Arc<Self>) -> Option<Arc<dyn EmailChanger>> {
        None
    }
    /// Stores profiles. Absent: no fields of profiles may be declared.
    fn user_profiles(self: Arc<Self>) -> Option<Arc<dyn UserProfiles>> {
        None
    }
    /// Sets passwords. Absent: no password reset, and no new hashes after a change of algorithm.
    fn password_setter(self: Arc<Self>) -> Option<Arc<dyn PasswordSetter>> {
        None
    }
    /// Returns how stored passwords are hashed. Absent: after a change of algorithm or cost, an old setting is taken
    /// into account only after a sign-in to an account with such a hash.
    fn hash_settings(self: Arc<Self>) -> Option<Arc<dyn HashSettings>> {
        None
    }
    /// Returns whether an account has a password. Absent: the last linked provider cannot be unlinked.
    fn password_checker(self: Arc<Self>) -> Option<Arc<dyn PasswordChecker>> {
        None
    }
    /// Records that a mailbox was proven. Absent: no email verification.
    fn email_verifier(self: Arc<Self>) -> Option<Arc<dyn EmailVerifier>> {
        None
    }
    /// Creates users without a password. Absent: they get a random one that is never shown.
    fn passwordless_users(self: Arc<Self>) -> Option<Arc<dyn PasswordlessUsers>> {
        None
    }
    /// Stores guests, who have no address. Absent: no guests.
    fn guest_users(self: Arc<Self>) -> Option<Arc<dyn GuestUsers>> {
        None
    }
    /// Refuses everything issued so far. Absent: a logout everywhere ends sessions, but JWTs stay valid until they
    /// expire.
    fn sign_out_everywhere(self: Arc<Self>) -> Option<Arc<dyn SignOutEverywhere>> {
        None
    }
    /// Links identities at providers. Absent: no sign-in with providers; outside dev mode the plugin refuses to start.
    fn oauth_links(self: Arc<Self>) -> Option<Arc<dyn OAuthLinks>> {
        None
    }
    /// Creates users together with their first link. Absent: the user and the link are created one after the other.
    fn oauth_user_creator(self: Arc<Self>) -> Option<Arc<dyn OAuthUserCreator>> {
        None
    }
    /// Lists links. Absent: linked accounts cannot be listed.
    fn account_lister(self: Arc<Self>) -> Option<Arc<dyn AccountLister>> {
        None
    }
    /// Removes links. Absent: no unlinking.
    fn account_unlinker(self: Arc<Self>) -> Option<Arc<dyn AccountUnlinker>> {
        None
    }
    /// Changes accounts in transactions of the service's database. Absent, or with another database: an invitation is
    /// claimed while the account gets its roles and membership, and is spent afterwards.
    fn users_within(self: Arc<Self>) -> Option<Arc<dyn UsersWithin>> {
        None
    }
}
