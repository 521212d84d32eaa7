use std::sync::Arc;

use gatewright_base::{Ambient, Secret, UserId};
use jiff::SignedDuration;

use super::flights::{Demand, Flights};
use super::seal::{CannotOpen, Column, Place};
use super::{OAuthTokenRecord, OAuthTokenStore, OAuthTokenStoreError, Sealed, TokenKeys};
use crate::providers::{Identified, Provider, ProviderError, ProviderTokens};

/// The tokens of providers, stored encrypted. Cheap to clone; all clones share their refreshes.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use gatewright_auth::providers::tokens::{OAuthTokens, SqlOAuthTokenStore, TokenKeys};
/// # use gatewright_auth::providers::{Google, GoogleConfig, OAuthClient, Provider, ProviderHttp};
/// # use gatewright_base::{Ambient, Secret, UserId};
/// # async fn example(db: gatewright_db::Db, client: OAuthClient, user: &UserId) -> Result<(), Box<dyn std::error::Error>> {
/// let ambient = Ambient::system();
/// let google: Arc<dyn Provider> =
///     Arc::new(Google::new(GoogleConfig::new(client), ProviderHttp::new()?, ambient.clone())?);
/// let keys = TokenKeys::new(&Secret::new(std::env::var("TOKEN_KEY")?), &[], false)?;
/// let tokens = OAuthTokens::new(Arc::new(SqlOAuthTokenStore::new(db)), keys, vec![google], ambient);
/// // … and later, for the user of the session at hand:
/// let access = tokens.valid_oauth_token(user, "google").await?;
/// # let _ = access; Ok(()) }
/// ```
#[derive(Clone)]
pub struct OAuthTokens(Arc<Inner>);

struct Inner {
    store: Arc<dyn OAuthTokenStore>,
    keys: TokenKeys,
    providers: Vec<Arc<dyn Provider>>,
    ambient: Ambient,
    flights: Flights<Result<Secret, OAuthTokenError>>,
}

/// Why there is no token. The message contains no token.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthTokenError {
    /// The user has not signed in with this provider since storing tokens was enabled, or the record was removed.
    #[error("no token of this provider is stored for this user")]
    NotStored,
    /// A refresh is needed, and the provider sent no refresh token.
    #[error("no refresh token is stored: the user must sign in with the provider again")]
    NoRefreshToken,
    /// The provider is not configured.
    #[error("there is no provider of this name")]
    UnknownProvider,
    /// The stored record cannot be decrypted.
    #[error("a stored token cannot be opened: was the encryption key changed without keeping the previous one?")]
    CannotOpen,
    /// The provider refused the refresh, or it failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] OAuthTokenStoreError),
}

/// How long before its end a token counts as over.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// A record that was opened.
struct Opened {
    record: OAuthTokenRecord,
    access: Secret,
    refresh: Option<Secret>,
}

impl OAuthTokens {
    /// Tokens in `store`, encrypted with `keys`, refreshed at `providers`.
    pub fn new(
        store: Arc<dyn OAuthTokenStore>,
        keys: TokenKeys,
        providers: Vec<Arc<dyn Provider>>,
        ambient: Ambient,
    ) -> Self {
        Self(Arc::new(Inner { store, keys, providers, ambient, flights: Flights::new() }))
    }

    /// Stores the tokens of a sign-in and replaces the user's earlier ones at this provider. If the provider sent no
    /// refresh token, the earlier one stays, if it belongs to the same identity.
    pub async fn save(&self, user: &UserId, provider: &str, found: &Identified) -> Result<(), OAuthTokenError> {
        let record = self.0.sealed(user, provider, &found.identity.provider_id, &found.tokens);
        Ok(self.0.store.put(&record).await?)
    }

    /// An access token that is valid according to the provider: the stored one or, if it has less than a minute left, a
    /// new one. If there is no new one (no refresh token, or the provider is unavailable), the stored one is returned
    /// until it expires.
    ///
    /// `user` must be the user of the current session, because the caller acts on that user's behalf at the provider.
    pub async fn valid_oauth_token(&self, user: &UserId, provider: &str) -> Result<Secret, OAuthTokenError> {
        let opened = self.0.load(user, provider).await?;
        if self.0.is_fresh(&opened) {
            return Ok(opened.access);
        }
        match self.fly(user, provider, Demand::Valid).await {
            // No newer token is available, and its last minute is not over.
            Err(
                OAuthTokenError::NoRefreshToken
                | OAuthTokenError::Provider(ProviderError::Unavailable(_) | ProviderError::Failed(_)),
            ) if self.0.lasts(&opened) => Ok(opened.access),
            result => result,
        }
    }

    /// A new access token, even if the stored one has not expired: use it when a provider's API has refused the stored
    /// one. Concurrent calls share one refresh. Fails with [`OAuthTokenError::NoRefreshToken`] if there is no refresh
    /// token.
    ///
    /// `user` is as for [`valid_oauth_token`](Self::valid_oauth_token).
    pub async fn refresh_oauth_token(&self, user: &UserId, provider: &str) -> Result<Secret, OAuthTokenError> {
        self.fly(user, provider, Demand::New).await
    }

    /// Removes a user's tokens at a provider, for example after unlinking.
    pub async fn remove(&self, user: &UserId, provider: &str) -> Result<(), OAuthTokenError> {
        self.0.store.remove(user, Some(provider)).await?;
        Ok(())
    }

    /// Removes a user's tokens at a provider if they belong to this identity there.
    pub(crate) async fn remove_of(
        &self,
        user: &UserId,
        provider: &str,
        provider_id: &str,
    ) -> Result<(), OAuthTokenError> {
        match self.0.store.find(user, provider).await? {
            Some(record) if record.provider_id == provider_id => self.remove(user, provider).await,
            _ => Ok(()),
        }
    }

    /// Removes all of a user's tokens.
    pub async fn remove_all(&self, user: &UserId) -> Result<(), OAuthTokenError> {
        self.0.store.remove(user, None).await?;
        Ok(())
    }

    /// Whether tokens are lost when the process ends.
    pub fn in_memory(&self) -> bool {
        self.0.store.in_memory()
    }

    async fn fly(&self, user: &UserId, provider: &str, demand: Demand) -> Result<Secret, OAuthTokenError> {
        let (key, inner) = ((user.clone(), provider.to_owned()), self.0.clone());
        let work = || {
            let (inner, (user, provider)) = (inner.clone(), key.clone());
            async move { inner.renew(&user, &provider, demand).await }
        };
        let broken = || Err(ProviderError::Unavailable("the refresh broke off").into());
        self.0.flights.join(key.clone(), demand, work).await.unwrap_or_else(broken)
    }
}

impl Inner {
    /// Requests new tokens from the provider, and stores them.
    async fn renew(&self, user: &UserId, name: &str, demand: Demand) -> Result<Secret, OAuthTokenError> {
        let provider = self.providers.iter().find(|provider| provider.name() == name);
        let provider = provider.ok_or(OAuthTokenError::UnknownProvider)?;
        let opened = self.load(user, name).await?;
        if demand == Demand::Valid && self.is_fresh(&opened) {
            return Ok(opened.access);
        }
        let refresh = opened.refresh.as_ref().ok_or(OAuthTokenError::NoRefreshToken)?;
        match provider.refresh(refresh).await {
            Ok(tokens) => self.keep(&opened, tokens).await,
            // Another replica may have been faster, and have spent the refresh token.
            Err(refused @ ProviderError::Refused { .. }) => match self.load(user, name).await {
                Ok(newer) if newer.record.access_token != opened.record.access_token && self.is_fresh(&newer) => {
                    Ok(newer.access)
                }
                _ => Err(refused.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the record whose refresh token was used by the new tokens. If that record is no longer stored, nothing
    /// is written: a sign-in has stored newer tokens, or the record was removed.
    async fn keep(&self, old: &Opened, mut tokens: ProviderTokens) -> Result<Secret, OAuthTokenError> {
        tokens.refresh = tokens.refresh.or_else(|| old.refresh.clone());
        tokens.scope = tokens.scope.or_else(|| old.record.scope.clone());
        let OAuthTokenRecord { user_id, provider, provider_id, .. } = &old.record;
        let new = self.sealed(user_id, provider, provider_id, &tokens);
        let kept = self.store.replace(&old.record, &new).await?;
        if !kept && self.store.find(user_id, provider).await?.is_none() {
            return Err(OAuthTokenError::NotStored);
        }
        Ok(tokens.access)
    }

    fn sealed(&self, user: &UserId, provider: &str, provider_id: &str, tokens: &ProviderTokens) -> OAuthTokenRecord {
        let seal = |token: &Secret, column| self.keys.seal(token, Place { user, provider, column });
        OAuthTokenRecord {
            user_id: user.clone(),
            provider: provider.to_owned(),
            provider_id: provider_id.to_owned(),
            access_token: seal(&tokens.access, Column::Access),
            refresh_token: tokens.refresh.as_ref().map(|token| seal(token, Column::Refresh)),
            expires_at: tokens.expires_at,
            scope: tokens.scope.clone(),
            updated_at: self.ambient.now(),
        }
    }

    /// The decrypted record. A record that is encrypted with a previous key is encrypted again with the current one.
    ///
    /// A refresh token that cannot be decrypted counts as absent: after a key was lost, a sign-in without a new refresh
    /// token keeps the old one, and must still succeed.
    async fn load(&self, user: &UserId, provider: &str) -> Result<Opened, OAuthTokenError> {
        let record = self.store.find(user, provider).await?.ok_or(OAuthTokenError::NotStored)?;
        let open = |sealed: &Sealed, column| {
            let opened = self.keys.open(sealed, Place { user, provider, column });
            opened.map_err(|CannotOpen| OAuthTokenError::CannotOpen)
        };
        let (access, access_is_new) = open(&record.access_token, Column::Access)?;
        let refresh = record.refresh_token.as_ref().and_then(|token| {
            let warn = |error: &_| tracing::warn!(%error, provider, "stored refresh token is unusable");
            open(token, Column::Refresh).inspect_err(warn).ok()
        });
        let is_new = access_is_new && refresh.as_ref().is_none_or(|(_, is_new)| *is_new);
        let refresh = refresh.map(|(token, _)| token);
        if is_new {
            return Ok(Opened { record, access, refresh });
        }
        let (expires_at, scope) = (record.expires_at, record.scope.clone());
        let tokens = ProviderTokens { access: access.clone(), refresh: refresh.clone(), expires_at, scope };
        let sealed = self.sealed(user, provider, &record.provider_id, &tokens);
        // A concurrent writer of the record has encrypted it with the current key.
        let resealed = self.store.replace(&record, &sealed).await?;
        Ok(Opened { record: if resealed { sealed } else { record }, access, refresh })
    }

    fn lasts(&self, opened: &Opened) -> bool {
        opened.record.expires_at.is_none_or(|end| end > self.ambient.now())
    }

    fn is_fresh(&self, opened: &Opened) -> bool {
        let now = self.ambient.now();
        opened.record.expires_at.is_none_or(|end| end.duration_since(now) > WINDOW)
    }
}

impl std::fmt::Debug for OAuthTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let providers: Vec<_> = self.0.providers.iter().map(|provider| provider.name()).collect();
        f.debug_struct("OAuthTokens").field("providers", &providers).finish_non_exhaustive()
    }
}
