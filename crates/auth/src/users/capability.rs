//! What a user store may be able to do beyond the four required operations, one trait each.

use async_trait::async_trait;
use gatewright_base::{Roles, UserId};
use gatewright_db::{Db, Error, Tx};
use jiff::Timestamp;

use super::{FoundUser, ListUsers, NewPasswordlessUser, NewUser, SearchUsers, User, UserPage, UserStoreError};
use crate::email::EmailAddress;
use crate::password::{PasswordAlgorithm, PasswordHash};

/// Lists users.
#[async_trait]
pub trait UserLister: Send + Sync {
    /// One page ordered by address, and the count of all users.
    async fn list(&self, page: ListUsers) -> Result<UserPage, UserStoreError>;

    /// The users whose address begins with a text, ordered by address; fast for any number of users. Absent: the admin API
    /// cannot search.
    async fn search(&self, search: &SearchUsers) -> Result<Vec<FoundUser>, UserStoreError> {
        let _ = search;
        Err(UserStoreError::transport("this user store cannot search"))
    }

    /// The user with this id, with the time of their creation.
    async fn find(&self, id: &UserId) -> Result<FoundUser, UserStoreError> {
        let _ = id;
        Err(UserStoreError::transport("this user store does not tell when accounts were created"))
    }
}

/// Changes passwords.
#[async_trait]
pub trait PasswordSetter: Send + Sync {
    /// Stores `hash` (from now on the account has a password) and, in the same write, refuses the sessions and JWTs
    /// begun at or before `at`.
    async fn set_password(&self, id: &UserId, hash: &PasswordHash, at: Timestamp) -> Result<(), UserStoreError>;

    /// Puts `new` in place of `old`, a hash of the same password, and refuses nothing. Does nothing where the stored
    /// hash is no longer `old`: the owner has changed the password meanwhile.
    async fn rehash(&self, id: &UserId, old: &PasswordHash, new: &PasswordHash) -> Result<(), UserStoreError>;

    /// Takes the password away and, in the same write, refuses the sessions and JWTs begun at or before `at`.
    async fn drop_password(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError>;
}

/// Deletes users.
#[async_trait]
pub trait UserDeleter: Send + Sync {
    /// Deletes the user with this id; [`UserStoreError::Referenced`] if rows that must not lose their user refer to it.
    async fn delete(&self, id: &UserId) -> Result<(), UserStoreError>;

    /// The columns whose rows refuse that at present. Asked before anything of the account is removed. Absent: a refusal
    /// is noticed by [`delete`](Self::delete) alone, when the account is closed already.
    async fn holders(&self, id: &UserId) -> Result<Vec<Holder>, UserStoreError> {
        let _ = id;
        Ok(Vec::new())
    }
}

/// A column with rows that must not lose a user.
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

    /// Clears it. What was refused stays refused.
    async fn enable(&self, id: &UserId) -> Result<(), UserStoreError>;
}

/// Changes addresses.
#[async_trait]
pub trait EmailChanger: Send + Sync {
    /// Puts `to`, whose mailbox is proven, in place of `from`. [`UserStoreError::NotFound`] when the account has another
    /// address than `from`, [`UserStoreError::EmailTaken`] when somebody has `to`.
    async fn change_email(&self, id: &UserId, from: &EmailAddress, to: &EmailAddress) -> Result<(), UserStoreError>;

    /// Gives an account the address back that was its own, whatever it has now, and marks it as verified. Another account
    /// that has taken the address meanwhile and never proven its mailbox gets `ID@displaced.invalid`, in the same write,
    /// and is returned; one that has proven it keeps it: [`UserStoreError::EmailTaken`].
    async fn restore_email(&self, id: &UserId, to: &EmailAddress) -> Result<Option<UserId>, UserStoreError>;
}

/// Keeps profiles: one text for each account, which the program reads and writes.
#[async_trait]
pub trait UserProfiles: Send + Sync {
    /// The stored profile; `None` if the account never had one. [`UserStoreError::NotFound`] without such an account.
    async fn profile(&self, id: &UserId) -> Result<Option<String>, UserStoreError>;

    /// Stores `profile` in place of `before`; `false`, and nothing is changed, if the account has another one by now or is
    /// gone. It goes with its account.
    async fn replace_profile(&self, id: &UserId, before: Option<&str>, profile: &str) -> Result<bool, UserStoreError>;

    /// The table of the service's database that has accounts and profiles in its text columns `id` and `profile`, for those
    /// who show public fields beside records. Absent: records show the ids of accounts alone.
    fn table(&self) -> Option<&str> {
        None
    }
}

/// Tells how stored passwords are hashed.
#[async_trait]
pub trait HashSettings: Send + Sync {
    /// The settings of all stored hashes, each once. Sign-ins take as long as the costliest of them, whoever the account,
    /// so that time does not tell accounts from unknown addresses. See [`PasswordAlgorithm::of_stored`].
    async fn hash_settings(&self) -> Result<Vec<PasswordAlgorithm>, UserStoreError>;
}

/// Tells whether an account has a password, for the check on the last way to sign in.
#[async_trait]
pub trait PasswordChecker: Send + Sync {
    /// Whether it has one.
    async fn has_password(&self, id: &UserId) -> Result<bool, UserStoreError>;
}

/// Records that a mailbox was proven to be its owner's.
#[async_trait]
pub trait EmailVerifier: Send + Sync {
    /// Marks the address as verified if it is still `email`; [`UserStoreError::NotFound`] when it is not, for a proof
    /// of one mailbox says nothing about another.
    async fn verify_email(&self, id: &UserId, email: &EmailAddress) -> Result<(), UserStoreError>;
}

/// Creates users who sign in without a password.
#[async_trait]
pub trait PasswordlessUsers: Send + Sync {
    /// Creates one, recording that it has no password. Concurrency and errors as for
    /// [`UserStore::create`](super::UserStore::create).
    async fn create_passwordless(&self, user: NewPasswordlessUser) -> Result<User, UserStoreError>;
}

/// Refuses what was issued to a user so far.
#[async_trait]
pub trait SignOutEverywhere: Send + Sync {
    /// Refuses the JWTs issued at or before `at` and, if `sessions` is [`Sessions::End`], the sessions as well. A
    /// later moment already recorded stays.
    async fn refuse_until(&self, id: &UserId, at: Timestamp, sessions: Sessions) -> Result<(), UserStoreError>;
}

/// What becomes of a user's sessions when JWTs are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// They end too: logout everywhere.
    End,
    /// They live on: a second factor was enrolled in one of them.
    Keep,
}

/// Changes accounts in a transaction that belongs to somebody else: what an invitation gives is given in the transaction that
/// spends it.
#[async_trait]
pub trait UsersWithin: Send + Sync {
    /// The database whose transactions the other two take.
    fn database(&self) -> &Db;

    /// Creates a user whose mailbox is proven. [`Error::Unique`] when somebody has the address.
    async fn create_proven(&self, tx: &Tx, user: &NewUser) -> Result<User, Error>;

    /// Adds roles to those that the account has at this moment. `false`, and nothing is changed, if it is gone or has another
    /// address than `email`.
    async fn add_roles(&self, tx: &Tx, id: &UserId, email: &EmailAddress, roles: &Roles) -> Result<bool, Error>;
}
