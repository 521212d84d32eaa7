use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use super::Sealed;
use crate::users::BoxError;

/// Stores encrypted tokens of providers. [`SqlOAuthTokenStore`](super::SqlOAuthTokenStore) is the built-in one.
#[async_trait]
pub trait OAuthTokenStore: Send + Sync + 'static {
    /// Stores a record and replaces the one of the same user and provider. If the new record has no refresh token and
    /// the stored one has the same `provider_id`, the stored refresh token stays: providers send it once.
    async fn put(&self, record: &OAuthTokenRecord) -> Result<(), OAuthTokenStoreError>;

    /// The record of this user and provider.
    async fn find(&self, user: &UserId, provider: &str) -> Result<Option<OAuthTokenRecord>, OAuthTokenStoreError>;

    /// Replaces `old` by `new` if the stored access token is still that of `old`, byte for byte. Otherwise returns
    /// `false` and changes nothing: the record was replaced or removed. Of concurrent calls one succeeds.
    async fn replace(&self, old: &OAuthTokenRecord, new: &OAuthTokenRecord) -> Result<bool, OAuthTokenStoreError>;

    /// Removes a user's records: that of `provider` or, without one, all. Returns how many there were.
    async fn remove(&self, user: &UserId, provider: Option<&str>) -> Result<u64, OAuthTokenStoreError>;

    /// Whether records are lost with the process and unknown to other replicas. Outside dev mode this must be allowed
    /// by `allow_in_memory_stores`.
    fn in_memory(&self) -> bool {
        false
    }
}

/// The encrypted tokens of a user at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthTokenRecord {
    /// The user. Together with `provider` the key.
    pub user_id: UserId,
    /// The provider's name.
    pub provider: String,
    /// Which identity at the provider they belong to: a user may have several linked.
    pub provider_id: String,
    /// The access token.
    pub access_token: Sealed,
    /// The refresh token, if there is one.
    pub refresh_token: Option<Sealed>,
    /// When the access token expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// The granted scopes, as the provider spells them.
    pub scope: Option<String>,
    /// When the record was written.
    pub updated_at: Timestamp,
}

/// The store of provider tokens failed, so the result is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store of provider tokens failed: {0}")]
pub struct OAuthTokenStoreError(#[source] Arc<dyn std::error::Error + Send + Sync>);

impl OAuthTokenStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into().into())
    }
}

impl From<gatewright_db::Error> for OAuthTokenStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}
