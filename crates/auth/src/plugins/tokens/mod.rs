//! API tokens: credentials that a program carries in place of its owner, a user or a service account.
//!
//! The journey of a token: `http.rs` takes a name, scopes and a lifetime from a session, `draft.rs` checks them,
//! `issuing.rs` draws the plaintext (`plaintext.rs`) and has the store keep its hash, and the answer shows the plaintext
//! for the only time. A request that carries it goes by [`TokenScheme`](crate::schemes), which finds the hash, asks whether
//! the token and its owner are still good, and notes the use (`uses.rs`), which is written down later, together with others.
//!
//! # What must hold
//!
//! Tokens are managed by sessions and by trusted server code ([`ApiTokens`], the command line). A token cannot beget
//! another, nor can a JWT or an embedded surface's grant: they are no [`Session`](crate::session::Session).
//!
//! A revoked token is kept for a while, so that who goes on using it is told apart, in the audit, from who guesses. All
//! failures look the same from outside.

mod draft;
mod flow;
mod http;
mod issuing;
mod memory;
mod plaintext;
mod rows;
mod store;
mod trusted;
mod uses;

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Subject, UserId, time};
use gatewright_db::Step;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::plugins::account_export::moment;
use crate::plugins::{Plugin, Prepared};
use crate::schemes::TokenScheme;
use crate::screens::account::TokensSection;
use crate::service_accounts::{MemoryServiceAccountStore, ServiceAccountStore, SqlServiceAccountStore};
use crate::users::BoxError;
use crate::{AuthInitError, Credentials, Foundation};

/// How long a revoked token is remembered, so that its further use is told apart from guessing.
pub(crate) const REMEMBERED: SignedDuration = SignedDuration::from_hours(90 * 24);

pub use draft::{InvalidTokenDraft, TokenDraft};
pub(crate) use flow::{IssueError, Tokens};
pub use issuing::{Issued, TokenError};
pub use memory::MemoryTokenStore;
pub(crate) use plaintext::{PREFIX, shown};
pub use plaintext::{Plaintext, TokenHash};
pub use rows::SqlTokenStore;
pub use store::{DelegatedTokens, Delegation, StoredToken, TokenStore, TokenStoreError};
pub use trusted::ApiTokens;
pub(crate) use uses::Uses;

/// The tokens plugin: API tokens, and the service accounts that may own them.
///
/// Without stores of the host's own, both are kept in the database or, if there is none, in memory.
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

    /// Takes the host's own tokens.
    pub fn store(mut self, store: Arc<dyn TokenStore>) -> Self {
        self.tokens = Some(store);
        self
    }

    /// Takes the host's own service accounts.
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
        if self.tokens.is_some() && self.services.is_some() { &[] } else { rows::MIGRATIONS }
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
                move |_| Arc::new(TokensSection::new(tokens))
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

/// The tokens that go when an account is claimed by whoever proves its mailbox first.
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
        // Where a store cannot remove them, they are revoked all the same.
        self.drop_all(user).await?;
        self.store.remove_all(&Subject::User(user.clone())).await?;
        Ok(())
    }
}
