//! The routes and the section of the account page with which users manage their API tokens. [`tokens`](crate::tokens)
//! describes tokens and their rules.

mod http;
mod section;

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Subject, UserId, time};
use gatewright_db::Step;
use serde_json::{Value, json};

use crate::credentials::Credentials;
use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::account_export::moment;
use crate::plugins::{Plugin, Prepared};
use crate::schemes::TokenScheme;
use crate::service_accounts::{MemoryServiceAccountStore, ServiceAccountStore, SqlServiceAccountStore};
use crate::tokens::{MIGRATIONS, MemoryTokenStore, SqlTokenStore, StoredToken, TokenStore, Tokens, Uses};
use crate::users::BoxError;

use section::TokensSection;

/// The tokens plugin: API tokens, and the service accounts that may own them.
///
/// Without a host's own stores, both are stored in the database or, if there is none, in memory.
#[derive(Default)]
pub struct TokensPlugin {
    tokens: Option<Arc<dyn TokenStore>>,
    services: Option<Arc<dyn ServiceAccountStore>>,
}

impl TokensPlugin {
    /// With the built-in stores.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses the host's own store of tokens.
    pub fn store(mut self, store: Arc<dyn TokenStore>) -> Self {
        self.tokens = Some(store);
        self
    }

    /// Uses the host's own store of service accounts.
    pub fn service_accounts(mut self, store: Arc<dyn ServiceAccountStore>) -> Self {
        self.services = Some(store);
        self
    }
}

impl Plugin for TokensPlugin {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn migrations(&self) -> &'static [Step] {
        if self.tokens.is_some() && self.services.is_some() { &[] } else { MIGRATIONS }
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let db = || foundation.db.clone();
        let store: Arc<dyn TokenStore> = match (self.tokens, db()) {
            (Some(store), _) => store,
            (None, Some(db)) => Arc::new(SqlTokenStore::new(db)),
            (None, None) => Arc::new(MemoryTokenStore::new()),
        };
        let services: Arc<dyn ServiceAccountStore> = match (self.services, db()) {
            (Some(store), _) => store,
            (None, Some(db)) => Arc::new(SqlServiceAccountStore::new(db)),
            (None, None) => Arc::new(MemoryServiceAccountStore::new()),
        };
        let config = &foundation.config;
        if (store.in_memory() || services.in_memory()) && !config.dev_mode && !config.allow_in_memory_stores {
            return Err(AuthInitError::InMemoryStore { store: "API token" });
        }
        let uses = Uses::new(store.clone());
        let tokens = Tokens { store: store.clone(), services, uses };
        Ok(Prepared::new()
            .scheme(Arc::new(TokenScheme::new(foundation, &tokens)))
            .credentials(Arc::new(OfUsers { store, foundation: foundation.clone() }))
            .account_section({
                let tokens = tokens.clone();
                move |core| Arc::new(TokensSection::new(core.clone(), tokens))
            })
            .tokens(tokens)
            .routes(|core| http::routes(core.clone())))
    }
}

impl std::fmt::Debug for TokensPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokensPlugin").finish_non_exhaustive()
    }
}

/// The tokens that a claim of the account removes.
struct OfUsers {
    store: Arc<dyn TokenStore>,
    foundation: Foundation,
}

#[async_trait]
impl Credentials for OfUsers {
    fn name(&self) -> &'static str {
        "api_tokens"
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        let now = self.foundation.ambient.now();
        Ok(self.store.revoke_all(&Subject::User(user.clone()), now).await?)
    }

    async fn describe(&self, user: &UserId) -> Result<Vec<Value>, BoxError> {
        let tokens = self.store.list(Some(&Subject::User(user.clone()))).await?;
        let token = |token: &StoredToken| {
            json!({
                "id": token.id.as_str(),
                "name": token.name,
                "prefix": token.prefix,
                "scopes": token.scopes,
                "created_at": time::format(token.created_at),
                "expires_at": moment(token.expires_at),
                "last_used_at": moment(token.last_used_at),
            })
        };
        Ok(tokens.iter().map(token).collect())
    }

    async fn forget(&self, user: &UserId) -> Result<(), BoxError> {
        // If a store cannot remove them, they are still revoked.
        self.drop_all(user).await?;
        self.store.remove_all(&Subject::User(user.clone())).await?;
        Ok(())
    }
}
