use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Scopes, Subject, TenantId, TenantLimit, TokenId};
use jiff::Timestamp;

use super::TokenHash;
use crate::users::BoxError;

/// Where API tokens live. [`SqlTokenStore`](super::SqlTokenStore) is the built-in one.
///
/// A store keeps and finds; whether a token is good is decided outside.
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    /// Keeps a new token, found from now on by `hash`. May clear away some that ended long before it was created.
    async fn create(&self, token: &StoredToken, hash: &TokenHash) -> Result<(), TokenStoreError>;

    /// The token with this hash, revoked and expired ones included. Asked for on every request that bears a token: an
    /// index belongs here.
    async fn find(&self, hash: &TokenHash) -> Result<Option<StoredToken>, TokenStoreError>;

    /// The tokens that are not revoked, the newest first: those of `owner` or, without one, all. Tokens that a program got
    /// from the authorization server ([`StoredToken::delegation`]) are not listed.
    async fn list(&self, owner: Option<&Subject>) -> Result<Vec<StoredToken>, TokenStoreError>;

    /// Revokes a token, one of `owner` if one is given. Of any number of concurrent calls one gets `true`; `false` if
    /// there is no such token, or it is revoked already.
    async fn revoke(&self, owner: Option<&Subject>, id: &TokenId, at: Timestamp) -> Result<bool, TokenStoreError>;

    /// Revokes every token of `owner`, and returns how many there were.
    async fn revoke_all(&self, owner: &Subject, at: Timestamp) -> Result<u64, TokenStoreError>;

    /// Removes every token of `owner`, whose account is deleted, with its name: revoked ones too. Absent, they are forgotten
    /// in time.
    async fn remove_all(&self, owner: &Subject) -> Result<u64, TokenStoreError> {
        let _ = owner;
        Ok(0)
    }

    /// Records that tokens were used. A later use already recorded stays; of a token that is gone, nothing.
    async fn touch(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), TokenStoreError>;

    /// Revokes the tokens that programs got from the authorization server. Without it the authorization server does not start.
    fn delegated_tokens(self: Arc<Self>) -> Option<Arc<dyn DelegatedTokens>> {
        None
    }

    /// Forgets tokens that were revoked at or before `before`, at most `limit` of them, and returns how many there were.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64, TokenStoreError> {
        let _ = (before, limit);
        Ok(0)
    }

    /// Whether tokens are lost with the process. Outside dev mode that must be allowed in so many words.
    fn in_memory(&self) -> bool {
        false
    }
}

/// The part of a token store that the authorization server needs.
#[async_trait]
pub trait DelegatedTokens: Send + Sync + 'static {
    /// Revokes the tokens of a grant, except the `keep` newest ones, and returns how many there were.
    async fn revoke_of_grant(&self, grant: &str, keep: u32, at: Timestamp) -> Result<u64, TokenStoreError>;

    /// Revokes the tokens of a client, and returns how many there were.
    async fn revoke_of_client(&self, client: &str, at: Timestamp) -> Result<u64, TokenStoreError>;
}

/// A token as its store knows it. Holds no secret and opens nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Its identifier.
    pub id: TokenId,
    /// What its owner calls it.
    pub name: String,
    /// The first 12 characters of the plaintext.
    pub prefix: String,
    /// In whose place it stands.
    pub owner: Subject,
    /// What it may do where a scope guard stands.
    pub scopes: Scopes,
    /// When it was issued.
    pub created_at: Timestamp,
    /// When it ends, if it does.
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
    /// The grant that it belongs to: one consent that was turned into tokens, or the client itself where no user took part.
    pub grant: String,
    /// The URL of the only resource that accepts it.
    pub audience: String,
    /// The only tenant that it may be used in, chosen by the user who consented. A user's token without one may be used in none.
    pub tenant: Option<TenantId>,
}

impl StoredToken {
    /// In which tenants it may be used. A service account's own client is bounded by the account's memberships alone.
    pub fn tenants(&self) -> TenantLimit {
        match (&self.delegation, &self.owner) {
            (Some(Delegation { tenant: Some(tenant), .. }), _) => TenantLimit::Only(tenant.clone()),
            (Some(Delegation { tenant: None, .. }), Subject::User(_)) => TenantLimit::Nowhere,
            (Some(Delegation { tenant: None, .. }), Subject::Service(_)) | (None, _) => TenantLimit::Unlimited,
        }
    }

    /// Whether it has ended by itself at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The store of API tokens could not do its work, so nothing is known.
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
