use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::UserId;
use gatewright_db::{Db, Error, Tx};
use jiff::Timestamp;

use crate::label::Label;
use crate::users::BoxError;

/// Stores passkeys. [`SqlPasskeyStore`](super::SqlPasskeyStore) is the built-in one.
#[async_trait]
pub trait PasskeyStore: Send + Sync + 'static {
    /// The passkey with this credential id, which is unique among all accounts.
    async fn find(&self, credential_id: &[u8]) -> Result<Option<Passkey>, PasskeyStoreError>;

    /// A user's passkeys, the oldest first.
    async fn list(&self, user: &UserId) -> Result<Vec<Passkey>, PasskeyStoreError>;

    /// Stores a new passkey. A user has at most `most`, also after concurrent calls.
    async fn add(&self, passkey: &Passkey, most: u32) -> Result<Added, PasskeyStoreError>;

    /// Records a sign-in with this signature counter. Returns `false` and changes nothing if the passkey is gone or its
    /// stored counter is not lower: an authenticator with a counter never repeats a value. An authenticator without one
    /// always sends zero, which is accepted.
    async fn used(&self, id: &str, counter: u32, backed_up: bool, at: Timestamp) -> Result<bool, PasskeyStoreError>;

    /// Renames a passkey of this user; `false` if they have none with this id.
    async fn rename(&self, user: &UserId, id: &str, name: &Label) -> Result<bool, PasskeyStoreError>;

    /// Removes a passkey of this user and returns it, if there was one. Called only if another way to sign in remains.
    async fn remove(&self, user: &UserId, id: &str) -> Result<Option<Passkey>, PasskeyStoreError>;

    /// Removes a user's passkeys: those created at or after `since` or, without it, all. Returns how many there were.
    async fn remove_all(&self, user: &UserId, since: Option<Timestamp>) -> Result<u64, PasskeyStoreError>;

    /// Spends a challenge. Its hash is stored until `expires_at`. Of concurrent calls exactly one returns `true`. May
    /// remove challenges that expired at or before `now`.
    async fn spend(
        &self,
        challenge: &[u8; 32],
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, PasskeyStoreError>;

    /// Adds and removes passkeys in transactions of the service's database. Absent: the service decides before it removes one,
    /// and one removal runs at a time in each process.
    fn within(self: Arc<Self>) -> Option<Arc<dyn PasskeysWithin>> {
        None
    }

    /// Whether passkeys are lost when the process ends. Outside dev mode this must be allowed by
    /// `allow_in_memory_stores`.
    fn in_memory(&self) -> bool {
        false
    }
}

/// Adds and removes passkeys within the caller's transaction, which has locked their account.
#[async_trait]
pub trait PasskeysWithin: Send + Sync {
    /// The database whose transactions the other methods accept.
    fn database(&self) -> &Db;

    /// How many passkeys a user has.
    async fn count(&self, tx: &Tx, user: &UserId) -> Result<u64, Error>;

    /// As [`PasskeyStore::add`].
    async fn add(&self, tx: &Tx, passkey: &Passkey, most: u32) -> Result<Added, Error>;

    /// A passkey of this user.
    async fn find(&self, tx: &Tx, user: &UserId, id: &str) -> Result<Option<Passkey>, Error>;

    /// Removes a passkey of this user.
    async fn remove(&self, tx: &Tx, user: &UserId, id: &str) -> Result<(), Error>;
}

/// A stored passkey: a public key, and nothing secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passkey {
    /// The identifier in the management API.
    pub id: String,
    /// Its user.
    pub user: UserId,
    /// The name that its owner chose.
    pub name: Label,
    /// The credential id of the authenticator: at most 1023 bytes.
    pub credential_id: Vec<u8>,
    /// The public key as a COSE key (RFC 9052).
    pub public_key: Vec<u8>,
    /// The COSE algorithm of the key.
    pub algorithm: i32,
    /// The signature counter of the last sign-in.
    pub counter: u32,
    /// The transports of the authenticator, as the browser reported them: a JSON list of strings.
    pub transports: String,
    /// Whether it is synced to other devices of its owner, as of the last sign-in.
    pub backed_up: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last used for a sign-in.
    pub last_used_at: Option<Timestamp>,
}

/// The result of adding a passkey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is stored.
    Done,
    /// A passkey with this credential id exists, of this account or another.
    Taken,
    /// The user's limit is reached.
    TooMany,
}

/// The store of passkeys failed, so the result is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the passkey store failed: {0}")]
pub struct PasskeyStoreError(#[source] BoxError);

impl PasskeyStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl From<gatewright_db::Error> for PasskeyStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}
