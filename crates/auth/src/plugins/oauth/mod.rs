//! Sign-in with providers: OAuth 2.0 and OpenID Connect (RFC 6749, section 4.1).
//!
//! The journey: `GET oauth/{provider}` signs a state (`state.rs`), gives it to the browser as a cookie and sends the
//! browser to the provider with the same text. The browser comes back to `callback`; `http.rs` checks that it is the
//! browser that went, has the cookie cleared whatever comes of it, and `flow.rs` exchanges the code for an identity,
//! gathers the facts, asks `decision.rs`, and does what it says: sign in, link, create, or nothing. Somebody proven is
//! taken to the mint like anybody else, where a second factor may be owed.
//!
//! `GET oauth/{provider}/link` is the same journey for somebody who is signed in: the state carries their id, and the
//! session that comes back must still be theirs.
//!
//! # What must hold
//!
//! An identity is linked to one account. A decision is made from facts that may move while it is carried out, so that
//! each change is one conditional write of the store, and one that comes too late has the decision made anew. An
//! unverified address binds to nothing. A verified one binds to an account without a password; where nobody had proven
//! that account's mailbox before, every credential it has goes first, for a stranger may have made it and waited.

mod credentials;
mod decision;
mod error;
mod flow;
mod http;
mod profile;
mod providers;
mod state;

use std::sync::Arc;

use gatewright_base::Secret;

use crate::oauth::Provider;
use crate::plugins::{Plugin, Prepared};
use crate::{AuthInitError, Foundation};

pub(crate) use credentials::provider_links;
use flow::Flow;
use providers::Providers;
use state::States;

/// The plugin of sign-in with providers.
pub struct OAuthPlugin {
    state_secret: Secret,
    providers: Vec<Arc<dyn Provider>>,
}

impl OAuthPlugin {
    /// A plugin that signs states with a key of `state_secret`, which has at least 32 bytes outside dev mode. Replicas
    /// share it. An empty one is fine in dev mode, where flows under way end with the process.
    pub fn new(state_secret: Secret) -> Self {
        Self { state_secret, providers: Vec::new() }
    }

    /// Adds a provider. Its [`name`](Provider::name) stands in paths and in stored links, and must be no other's.
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.push(provider);
        self
    }
}

impl Plugin for OAuthPlugin {
    fn name(&self) -> &'static str {
        "oauth"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let config = &foundation.config;
        if foundation.users.oauth_links.is_none() {
            if !config.dev_mode && !config.allow_in_memory_stores {
                return Err(AuthInitError::MissingCapability {
                    plugin: "oauth",
                    store: "user",
                    capability: "links to providers (`oauth_links`)",
                    remedy: "without them nobody who comes from a provider could be found again",
                });
            }
            tracing::warn!("the user store cannot keep links to providers: every sign-in with one fails");
        }
        let providers = Providers::new(self.providers, config)?;
        let states = States::new(&self.state_secret, !providers.is_empty(), config, &foundation.ambient)?;
        let prepared = providers.iter().fold(Prepared::new(), |prepared, registered| {
            let (name, label) = (registered.provider.name(), registered.provider.label());
            prepared.way_in(format!("Sign in with {label}"), format!("{}/oauth/{name}", config.base_path))
        });
        Ok(prepared.routes(move |core| http::routes(Arc::new(Flow { core: core.clone(), providers, states }))))
    }
}

impl std::fmt::Debug for OAuthPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let providers: Vec<_> = self.providers.iter().map(|provider| provider.name()).collect();
        f.debug_struct("OAuthPlugin").field("providers", &providers).finish_non_exhaustive()
    }
}
