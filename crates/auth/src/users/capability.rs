//! Optional capabilities of a user store beyond the four required operations, one trait each.

use async_trait::async_trait;
use gatewright_base::{Roles, UserId};
use gatewright_db::{Db, Error, Tx};
use jiff::Timestamp;

use super::{
    FoundUser, GuestUpgrade, ListUsers, NewPasswordlessUser, NewUser, SearchUsers, User, UserPage, UserStoreError,
};
use crate::email::EmailAddress;
use crate::mailbox::MailboxProof;
use crate::password::{PasswordHash, StoredHashes};

/// Lists users.
#[async_trait]
pub trait UserLister: Send + Sync {
    /// One page ordered by address, and the count of all users.
    async fn list(&self, page: ListUsers) -> Result<UserPage, UserStoreError>;

    /// The users whose address begins with a text, ordered by address; fast for any number of users. Without it, the
    /// admin API cannot search.
    async fn search(&self, search: &SearchUsers) -> Result<Vec<FoundUser>, UserStoreError> {
        let _ = search;
        Err(UserStoreError::transport("this user store cannot search"))
    }

    /// The user with this id, with the time of their creation.
    async fn find(&self, id: &UserId) -> Result<FoundUser, UserStoreError> {
        let _ = id;
        Err(UserStoreError::transport("this user store does not report when accounts were created"))
    }
}

/// Changes passwords.
#[async_trait]
pub trait PasswordSetter: Send + Sync {
    /// Stores `hash` (from now on the account has a password) and, in the same write, refuses the sessions and JWTs
    /// begun at or before `at`.
    async fn set_password(&self, id: &UserId, hash: &PasswordHash, at: Timestamp) -> Result<(), UserStoreError>;

    /// Replaces the hash `old` by `new`, a hash of the same password, and refuses no session or JWT. Does nothing if
    /// the stored hash is no longer `old`: the owner has changed the password meanwhile.
    async fn rehash(&self, id: &UserId, old: &PasswordHash, new: &PasswordHash) -> Result<(), UserStoreError>;

    /// Removes the password and, in the same write, refuses the sessions and JWTs begun at or before `at`.
    async fn drop_password(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError>;
}

/// Deletes users.
#[async_trait]
pub trait UserDeleter: Send + Sync {
    /// Deletes the user with this id. Fails with [`UserStoreError::Referenced`] if rows with a restricting foreign key
    /// refer to it.
    async fn delete(&self, id: &UserId) -> Result<(), UserStoreError>;

    /// The columns whose rows prevent a deletion now. Called before anything of the account is removed. Without it,
    /// only [`delete`](Self::delete) finds them, when the account is already closed.
    async fn holders(&self, id: &UserId) -> Result<Vec<Holder>, UserStoreError> {
        let _ = id;
        Ok(Vec::new())
    }
}

/// A column with rows that prevent the deletion of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its table.
    pub table: String,
    /// Its name.
    pub column: String,
}

/// Disables accounts, and enables them again.
#[async_trait]
pub trait UserDisabler: Send + Sync {
    /// Sets [`User::disabled`] and, in the same write, refuses the sessions and JWTs begun at or before `at`.
    async fn disable(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError>;

    /// Clears [`User::disabled`]. Sessions and JWTs that were refused stay refused.
    async fn enable(&self, id: &UserId) -> Result<(), UserStoreError>;
}

/// Changes addresses.
#[async_trait]
pub trait EmailChanger: Send + Sync {
    /// Replaces the address `from` of the proof's account by the address of the proof and, in the same write, marks it as
    /// verified. Fails with [`UserStoreError::NotFound`] if the account's address is not `from`, and with
    /// [`UserStoreError::EmailTaken`] if another account has the new one.
    async fn change_email(&self, from: &EmailAddress, to: &MailboxProof) -> Result<(), UserStoreError>;

    /// Restores an account's earlier address `to` and, in the same write, marks it as not verified: the proof follows.
    /// With `from`, fails with [`UserStoreError::NotFound`] if the account's address is another one. If another account
    /// has taken the address meanwhile and never proven its mailbox, that account gets `ID@displaced.invalid` in the
    /// same write, and its id is returned. If it has proven the mailbox, fails with [`UserStoreError::EmailTaken`].
    async fn restore_email(
        &self,
        id: &UserId,
        from: Option<&EmailAddress>,
        to: &EmailAddress,
    ) -> Result<Option<UserId>, UserStoreError>;
}

/// Stores profiles: one text for each account, which the program reads and writes.
#[async_trait]
pub trait UserProfiles: Send + Sync {
    /// The stored profile; `None` if the account never had one. Fails with [`UserStoreError::NotFound`] if there is no
    /// such account.
    async fn profile(&self, id: &UserId) -> Result<Option<String>, UserStoreError>;

    /// Replaces the profile `before` by `profile`. Returns `false` and changes nothing if the stored profile is not
    /// `before`, or if the account is gone. A profile is deleted with its account.
    async fn replace_profile(&self, id: &UserId, before: Option<&str>, profile: &str) -> Result<bool, UserStoreError>;

    /// The table of the service's database that has accounts and profiles in its text columns `id` and `profile`.
    /// Records show public fields of profiles from it. Without it, records show only the ids of accounts.
    fn table(&self) -> Option<&str> {
        None
    }
}

/// Returns how stored passwords are hashed.
#[async_trait]
pub trait HashSettings: Send + Sync {
    /// The settings of all stored hashes, and the accounts whose hash is unusable. Every sign-in takes as long as the
    /// costliest of them, so that the time does not reveal whether an account exists. See [`StoredHashes::add`].
    async fn hash_settings(&self) -> Result<StoredHashes, UserStoreError>;
}

/// Returns whether an account has a password, for the check that one way to sign in remains.
#[async_trait]
pub trait PasswordChecker: Send + Sync {
    /// Whether it has one.
    async fn has_password(&self, id: &UserId) -> Result<bool, UserStoreError>;
}

/// Records that a mailbox was proven to be its owner's.
#[async_trait]
pub trait EmailVerifier: Send + Sync {
    /// Marks the address of the proof's account as verified if it is still the address of the proof. Fails with
    /// [`UserStoreError::NotFound`] otherwise, because the proof of one mailbox does not prove another.
    async fn verify_email(&self, proof: &MailboxProof) -> Result<(), UserStoreError>;
}

/// Creates users who sign in without a password.
#[async_trait]
pub trait PasswordlessUsers: Send + Sync {
    /// Creates a user and records that it has no password. Concurrency and errors are as for
    /// [`UserStore::create`](super::UserStore::create).
    async fn create_passwordless(&self, user: NewPasswordlessUser) -> Result<User, UserStoreError>;
}

/// Accounts without an address, which become full ones later.
#[async_trait]
pub trait GuestUsers: Send + Sync {
    /// Creates a guest without a password, whose address is [`EmailAddress::of_guest`].
    async fn create_guest(&self, roles: &Roles) -> Result<User, UserStoreError>;

    /// Gives a guest an address that is not verified and, in the same write, refuses the sessions and JWTs begun at or before
    /// `at`. Returns `false` and changes nothing if the account is no guest, disabled or gone: of concurrent calls one
    /// succeeds. Fails with [`UserStoreError::EmailTaken`] if another account has the address.
    async fn upgrade(&self, id: &UserId, new: &GuestUpgrade<'_>, at: Timestamp) -> Result<bool, UserStoreError>;

    /// Disables a guest and, in the same write, refuses what was issued so far. Returns `false` and changes nothing if the
    /// account is no guest or gone.
    async fn close(&self, id: &UserId, at: Timestamp) -> Result<bool, UserStoreError>;

    /// Guests that were created before a moment, disabled ones too, in the order of their ids and after one, at most `limit`.
    async fn created_before(
        &self,
        moment: Timestamp,
        after: Option<&UserId>,
        limit: u32,
    ) -> Result<Vec<User>, UserStoreError>;
}

/// Refuses everything that was issued to a user so far.
#[async_trait]
pub trait SignOutEverywhere: Send + Sync {
    /// Refuses the JWTs issued at or before `at` and, if `sessions` is [`Sessions::End`], the sessions as well. If a
    /// later time is already recorded, it stays.
    async fn refuse_until(&self, id: &UserId, at: Timestamp, sessions: Sessions) -> Result<(), UserStoreError>;
}

/// What happens to a user's sessions when JWTs are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// They end too: logout everywhere.
    End,
    /// They stay valid: a second factor was enrolled in one of them.
    Keep,
}

/// Reads and changes accounts within the caller's transaction: an account gets the roles of an invitation in the transaction
/// that spends the invitation, and keeps one way to sign in because the last one is found and kept in one transaction.
#[async_trait]
pub trait UsersWithin: Send + Sync {
    /// The database whose transactions the other methods accept.
    fn database(&self) -> &Db;

    /// Reads the account and locks its row until the transaction ends. `None` if it is gone. What is decided after this call is
    /// still true when the transaction commits, because every change of an account's ways to sign in takes the same lock.
    async fn lock(&self, tx: &Tx, id: &UserId) -> Result<Option<User>, Error>;

    /// The providers that the account is linked to, one for each link.
    async fn linked(&self, tx: &Tx, id: &UserId) -> Result<Vec<String>, Error>;

    /// Removes the account's links to one provider.
    async fn unlink(&self, tx: &Tx, id: &UserId, provider: &str) -> Result<(), Error>;

    /// Refuses the account's JWTs from `at` or before.
    async fn refuse_tokens(&self, tx: &Tx, id: &UserId, at: Timestamp) -> Result<(), Error>;

    /// [`EmailChanger::change_email`] in a transaction; `false` if the account is gone or its address is not `from`. Fails with
    /// [`Error::Unique`] if another account has the address.
    async fn change_email(&self, tx: &Tx, from: &EmailAddress, to: &MailboxProof) -> Result<bool, Error>;

    /// Creates a user whose mailbox is proven. Fails with [`Error::Unique`] if another account has the address.
    async fn create_proven(&self, tx: &Tx, user: &NewUser) -> Result<User, Error>;

    /// Adds roles to the account's current ones. Returns `false` and changes nothing if the account is gone or its
    /// address is not `email`.
    async fn add_roles(&self, tx: &Tx, id: &UserId, email: &EmailAddress, roles: &Roles) -> Result<bool, Error>;
}
