//! Sign-in with providers: OAuth 2.0 and OpenID Connect (RFC 6749, section 4.1).
//!
//! `GET oauth/{provider}` signs a state (`state.rs`), sets it as a cookie and redirects the browser to the provider
//! with the same text. The provider redirects the browser to `callback`. `http.rs` checks that it is the same browser
//! and clears the cookies in every case. PKCE and the nonce are derived from the browser's own secret (`binding.rs`), so a
//! stolen code works in no other browser. `flow.rs` exchanges the code for an identity, gathers the facts, calls
//! `decision.rs`, and carries out the decision: sign in, link, create, or nothing. A sign-in ends at the mint like any
//! other, where a second factor may be required.
//!
//! `GET oauth/{provider}/link` is the same flow for a signed-in user: the state contains their id, and the session at
//! the callback must still be theirs.
//!
//! # Invariants
//!
//! An identity is linked to one account. The facts may change while a decision is carried out. So each change is one
//! conditional write of the store, and if the facts have changed, the decision is made again. An unverified address is
//! never linked to an account. A verified address is linked to an account without a password. If nobody had proven that
//! account's mailbox before, all its credentials are removed first, because an attacker may have created it.

mod binding;
mod decision;
mod error;
mod flow;
mod http;
mod profile;
mod providers;
mod state;

use std::sync::Arc;

use gatewright_base::{Ambient, Secret};
use gatewright_db::Step;

use crate::foundation::Foundation;
use crate::fresh::Fresh;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};
use crate::providers::Provider;
use crate::providers::tokens::{
    MemoryOAuthTokenStore, OAUTH_TOKENS_SCHEMA, OAuthTokenStore, OAuthTokens, SqlOAuthTokenStore, TokenKeys,
};

use flow::Flow;
use providers::Providers;
use state::States;

/// The plugin of sign-in with providers.
pub struct OAuthPlugin {
    state_secret: Secret,
    state_previous_secrets: Vec<Secret>,
    providers: Vec<MakeProvider>,
    token_keys: Option<(Secret, Vec<Secret>)>,
    store: Option<Arc<dyn OAuthTokenStore>>,
}

type MakeProvider = Box<dyn FnOnce(&Ambient) -> Result<Arc<dyn Provider>, AuthInitError> + Send>;

impl OAuthPlugin {
    /// A plugin that signs states with a key derived from `state_secret`, which has at least 32 bytes outside dev mode.
    /// All replicas need the same one. In dev mode it may be empty; pending flows then end with the process.
    pub fn new(state_secret: Secret) -> Self {
        Self { state_secret, state_previous_secrets: Vec::new(), providers: Vec::new(), token_keys: None, store: None }
    }

    /// Accepts states that were signed with these secrets too, for a rotation.
    pub fn state_previous_secrets(self, secrets: Vec<Secret>) -> Self {
        Self { state_previous_secrets: secrets, ..self }
    }

    /// Adds a provider. Its [`name`](Provider::name) is part of paths and stored links, and must be unique.
    pub fn provider(self, provider: Arc<dyn Provider>) -> Self {
        self.provider_with(|_| Ok(provider))
    }

    /// Adds a provider that is created when the application is built, with its clock. An error stops the start.
    pub fn provider_with(
        mut self,
        make: impl FnOnce(&Ambient) -> Result<Arc<dyn Provider>, AuthInitError> + Send + 'static,
    ) -> Self {
        self.providers.push(Box::new(make));
        self
    }

    /// Stores the tokens of each sign-in and link in the database or, if there is none, in memory. They are encrypted
    /// with a key derived from `secret`, a text of at least 32 bytes outside dev mode and never empty. `previous` are
    /// earlier secrets. [`Auth::oauth_tokens`](crate::Auth::oauth_tokens) returns the tokens.
    pub fn tokens(mut self, secret: Secret, previous: Vec<Secret>) -> Self {
        self.token_keys = Some((secret, previous));
        self
    }

    /// Uses the host's own store for the tokens. Needs [`tokens`](Self::tokens); otherwise the start is refused.
    pub fn token_store(mut self, store: Arc<dyn OAuthTokenStore>) -> Self {
        self.store = Some(store);
        self
    }

    fn settle_tokens(
        &mut self,
        providers: &[Arc<dyn Provider>],
        foundation: &Foundation,
    ) -> Result<Option<OAuthTokens>, AuthInitError> {
        let Some((secret, previous)) = self.token_keys.take() else {
            // Only encrypted tokens are stored.
            return if self.store.is_some() { Err(AuthInitError::MissingTokenEncryptionKey) } else { Ok(None) };
        };
        let keys = TokenKeys::new(&secret, &previous, foundation.config.dev_mode)?;
        let store: Arc<dyn OAuthTokenStore> = match (self.store.take(), &foundation.db) {
            (Some(store), _) => store,
            (None, Some(db)) => Arc::new(SqlOAuthTokenStore::new(db.clone())),
            (None, None) => Arc::new(MemoryOAuthTokenStore::new()),
        };
        let config = &foundation.config;
        if store.in_memory() && !config.dev_mode && !config.allow_in_memory_stores {
            return Err(AuthInitError::InMemoryStore { store: "OAuth token" });
        }
        Ok(Some(OAuthTokens::new(store, keys, providers.to_vec(), foundation.ambient.clone())))
    }
}

/// The steps that create the table of tokens.
const MIGRATIONS: &[Step] = &[Step { version: 1, name: "oauth tokens", sql: OAUTH_TOKENS_SCHEMA }];

impl Plugin for OAuthPlugin {
    fn name(&self) -> &'static str {
        "oauth"
    }

    fn migrations(&self) -> &'static [Step] {
        if self.token_keys.is_some() && self.store.is_none() { MIGRATIONS } else { &[] }
    }

    fn prepare(mut self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let config = &foundation.config;
        if foundation.users.oauth_links.is_none() {
            if !config.dev_mode && !config.allow_in_memory_stores {
                return Err(AuthInitError::MissingCapability {
                    plugin: "oauth",
                    store: "user",
                    capability: "links to providers (`oauth_links`)",
                    remedy: "without them no user of a provider could be found again",
                });
            }
            tracing::warn!("the user store cannot store provider links: every sign-in with a provider fails");
        }
        let made = std::mem::take(&mut self.providers).into_iter().map(|make| make(&foundation.ambient));
        let providers = made.collect::<Result<Vec<_>, _>>()?;
        let tokens = self.settle_tokens(&providers, foundation)?;
        let providers = Providers::new(providers, config)?;
        let states = States::new(
            (&self.state_secret, &self.state_previous_secrets),
            !providers.is_empty(),
            config,
            &foundation.ambient,
        )?;
        let states = states.redirects(foundation.redirects.clone());
        let prepared = providers.iter().fold(Prepared::new(), |prepared, registered| {
            let (name, label) = (registered.provider.name(), registered.provider.label());
            prepared.oauth_provider(name, label).provider_link(
                name,
                label,
                format!("{}/oauth/{name}", config.base_path),
            )
        });
        Ok(prepared.oauth_tokens(tokens).routes(move |core| {
            http::routes(Arc::new(Flow { fresh: Fresh::new(core.clone()), core: core.clone(), providers, states }))
        }))
    }
}

impl std::fmt::Debug for OAuthPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuthPlugin").field("providers", &self.providers.len()).finish_non_exhaustive()
    }
}
