use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use crate::label::Label;
use crate::users::BoxError;

/// Where passkeys live. [`SqlPasskeyStore`](super::SqlPasskeyStore) is the built-in one.
#[async_trait]
pub trait PasskeyStore: Send + Sync + 'static {
    /// The passkey with this credential id, which is unique among all accounts.
    async fn find(&self, credential_id: &[u8]) -> Result<Option<Passkey>, PasskeyStoreError>;

    /// A user's passkeys, the oldest first.
    async fn list(&self, user: &UserId) -> Result<Vec<Passkey>, PasskeyStoreError>;

    /// Keeps a new passkey. A user has at most `most`.
    async fn add(&self, passkey: &Passkey, most: u32) -> Result<Added, PasskeyStoreError>;

    /// Records a sign-in with this signature counter. `false`, and nothing changed, if the passkey is gone or has counted as
    /// far already: an authenticator that counts never repeats itself. Zero stays zero for one that does not count.
    async fn used(&self, id: &str, counter: u32, backed_up: bool, at: Timestamp) -> Result<bool, PasskeyStoreError>;

    /// Gives a passkey of this user another name; `false` if they have none with this id.
    async fn rename(&self, user: &UserId, id: &str, name: &Label) -> Result<bool, PasskeyStoreError>;

    /// Removes a passkey of this user and returns it, if there was one.
    async fn remove(&self, user: &UserId, id: &str) -> Result<Option<Passkey>, PasskeyStoreError>;

    /// Removes a user's passkeys: those made at or after `since` or, without it, all. Returns how many there were.
    async fn remove_all(&self, user: &UserId, since: Option<Timestamp>) -> Result<u64, PasskeyStoreError>;

    /// Spends a challenge, which is kept by its hash until `expires_at`. Of any number of concurrent calls exactly one gets
    /// `true`. May clear away challenges that expired at or before `now`.
    async fn spend(
        &self,
        challenge: &[u8; 32],
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, PasskeyStoreError>;

    /// Whether passkeys are lost with the process. Outside dev mode that must be allowed in so many words.
    fn in_memory(&self) -> bool {
        false
    }
}

/// A passkey as it is stored: a public key, and nothing secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passkey {
    /// What its owner manages it by.
    pub id: String,
    /// Whose it is.
    pub user: UserId,
    /// What its owner calls it.
    pub name: Label,
    /// What the authenticator calls it: at most 1023 bytes.
    pub credential_id: Vec<u8>,
    /// The public key as a COSE key (RFC 9052).
    pub public_key: Vec<u8>,
    /// The COSE algorithm of the key.
    pub algorithm: i32,
    /// The signature counter of the last sign-in.
    pub counter: u32,
    /// How the authenticator can be reached, as the browser said: a JSON list of words.
    pub transports: String,
    /// Whether it is synced to other devices of its owner, as of the last sign-in.
    pub backed_up: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last signed in.
    pub last_used_at: Option<Timestamp>,
}

/// What came of adding a passkey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is kept.
    Done,
    /// There is one with this credential id, of this account or another.
    Taken,
    /// The user has as many as they may.
    TooMany,
}

/// The store of passkeys could not do its work, so nothing is known.
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
