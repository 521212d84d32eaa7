use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Scopes, Subject, TenantId, TenantLimit, TokenId};
use gatewright_db::{Db, Error, Tx};
use jiff::Timestamp;

use super::TokenHash;
use crate::users::BoxError;

/// Stores API tokens. [`SqlTokenStore`](super::SqlTokenStore) is the built-in one.
///
/// A store only saves and finds tokens. It does not decide whether a token is valid.
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    /// Stores a new token, which is then found by `hash`. May remove some that expired long ago.
    ///
    /// Its owner has at most `most` tokens that [`list`](Self::list) returns. If there are as many, those that have expired are
    /// revoked to make room. Returns `false` and stores nothing if none has. This must hold for concurrent calls too.
    async fn create(&self, token: &StoredToken, hash: &TokenHash, most: Option<u32>) -> Result<bool, TokenStoreError>;

    /// The token with this hash, even if it is revoked or expired. Called on every request with a token, so the column
    /// needs an index.
    async fn find(&self, hash: &TokenHash) -> Result<Option<StoredToken>, TokenStoreError>;

    /// The tokens that are not revoked, the newest first: those of `owner` or, without one, all. Tokens that a program got
    /// from the authorization server ([`StoredToken::delegation`]) are not listed.
    async fn list(&self, owner: Option<&Subject>) -> Result<Vec<StoredToken>, TokenStoreError>;

    /// Revokes a token, one of `owner` if one is given. Of concurrent calls one returns `true`. Returns `false` if
    /// there is no such token, or it is revoked already.
    async fn revoke(&self, owner: Option<&Subject>, id: &TokenId, at: Timestamp) -> Result<bool, TokenStoreError>;

    /// Revokes every token of `owner`, and returns how many there were.
    async fn revoke_all(&self, owner: &Subject, at: Timestamp) -> Result<u64, TokenStoreError>;

    /// Removes every token of `owner`, whose account is deleted, including revoked ones. Without it, they are removed
    /// later by [`sweep`](Self::sweep).
    async fn remove_all(&self, owner: &Subject) -> Result<u64, TokenStoreError> {
        let _ = owner;
        Ok(0)
    }

    /// Records that tokens were used. A later use that is already recorded stays. Tokens that are gone are ignored.
    async fn touch(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), TokenStoreError>;

    /// Creates tokens in transactions of the service's database. Absent: a token is stored first, and revoked if the session of
    /// its owner has ended meanwhile.
    fn within(self: Arc<Self>) -> Option<Arc<dyn TokensWithin>> {
        None
    }

    /// Revokes the tokens that programs got from the authorization server. Without it the authorization server does not start.
    fn delegated_tokens(self: Arc<Self>) -> Option<Arc<dyn DelegatedTokens>> {
        None
    }

    /// Removes tokens that were revoked at or before `before`, at most `limit` of them, and returns how many there
    /// were.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64, TokenStoreError> {
        let _ = (before, limit);
        Ok(0)
    }

    /// Whether tokens are lost when the process ends. Outside dev mode this must be allowed by
    /// `allow_in_memory_stores`.
    fn in_memory(&self) -> bool {
        false
    }
}

/// Creates tokens within the caller's transaction, which has locked the account of their owner.
#[async_trait]
pub trait TokensWithin: Send + Sync {
    /// The database whose transactions [`create`](Self::create) accepts.
    fn database(&self) -> &Db;

    /// As [`TokenStore::create`].
    async fn create(&self, tx: &Tx, token: &StoredToken, hash: &TokenHash, most: Option<u32>) -> Result<bool, Error>;
}

/// The part of a token store that the authorization server needs.
#[async_trait]
pub trait DelegatedTokens: Send + Sync + 'static {
    /// Revokes the tokens of a grant, except the `keep` newest ones, and returns how many there were.
    async fn revoke_of_grant(&self, grant: &str, keep: u32, at: Timestamp) -> Result<u64, TokenStoreError>;

    /// Revokes the tokens of a client, and returns how many there were.
    async fn revoke_of_client(&self, client: &str, at: Timestamp) -> Result<u64, TokenStoreError>;
}

/// A token in a store. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Its identifier.
    pub id: TokenId,
    /// The name that its owner chose.
    pub name: String,
    /// The first 12 characters of the plaintext.
    pub prefix: String,
    /// The user or service account for which it acts.
    pub owner: Subject,
    /// Its scopes, for routes with a scope guard.
    pub scopes: Scopes,
    /// When it was issued.
    pub created_at: Timestamp,
    /// When it expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to within a minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// Set for a token that the authorization server issued to a program.
    pub delegation: Option<Delegation>,
}

/// To which program a token was issued, and for which resource (RFC 8707).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// The client's identifier.
    pub client: String,
    /// The grant that it belongs to: one consent of a user, or the client itself if no user was involved.
    pub grant: String,
    /// The URL of the only resource that accepts it.
    pub audience: String,
    /// The only tenant that it may be used in, chosen by the user who consented. A user's token without one may be used in none.
    pub tenant: Option<TenantId>,
}

impl StoredToken {
    /// The tenants in which it may be used. A service account's own client is limited only by the account's
    /// memberships.
    pub fn tenants(&self) -> TenantLimit {
        match (&self.delegation, &self.owner) {
            (Some(Delegation { tenant: Some(tenant), .. }), _) => TenantLimit::Only(tenant.clone()),
            (Some(Delegation { tenant: None, .. }), Subject::User(_)) => TenantLimit::Nowhere,
            (Some(Delegation { tenant: None, .. }), Subject::Service(_)) | (None, _) => TenantLimit::Unlimited,
        }
    }

    /// Whether it has expired at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The store of API tokens failed, so the result is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the API token store failed: {0}")]
pub struct TokenStoreError(#[source] BoxError);

impl TokenStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl From<gatewright_db::Error> for TokenStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}
