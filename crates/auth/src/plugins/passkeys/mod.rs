//! Passkeys: sign-in with a key pair of a phone, a computer or a security key (`WebAuthn` Level 3).
//!
//! To add a passkey, `http.rs` requires a fresh proof (`fresh.rs` of this crate) from a session and answers with
//! options; the browser creates a passkey and posts it; `relying_party.rs` checks it, and `rows.rs` stores its public
//! key. A sign-in requests options, posts an assertion, which is checked, spends the challenge, and ends at the mint,
//! which accepts the authenticator's verification of the user as the second factor.
//!
//! # Invariants
//!
//! A challenge (`challenge.rs`) works once, in one browser, for one purpose, within five minutes. A stolen session
//! cannot add a passkey. The last way to sign in cannot be removed: a password, a provider, or a passkey. A removal
//! is decided and done in one transaction, under the lock of the account. Passkeys are credentials: a claim of the account
//! removes them. The crate `passki` implements the ceremonies, with the service's only crypto provider.

mod challenge;
mod credentials;
mod flow;
mod http;
mod memory;
mod relying_party;
mod rows;
mod section;
mod store;

use std::sync::Arc;

use gatewright_db::Step;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};

use challenge::Challenges;
use credentials::OfUsers;
use flow::Parts;
pub(crate) use flow::{Flow, PasskeyError};
pub use memory::MemoryPasskeyStore;
use relying_party::{Place, RelyingParty};
pub use rows::SqlPasskeyStore;
use section::PasskeysSection;
pub use store::{Added, Passkey, PasskeyStore, PasskeyStoreError, PasskeysWithin};

/// The passkeys plugin.
///
/// Without a host's own store, passkeys are stored in the database or, if there is none, in memory.
pub struct PasskeysPlugin {
    name: String,
    rp_id: Option<String>,
    origins: Vec<String>,
    store: Option<Arc<dyn PasskeyStore>>,
}

impl PasskeysPlugin {
    /// A plugin whose service has the name `name` in browsers.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rp_id: None, origins: Vec::new(), store: None }
    }

    /// Uses a parent domain of the public URL's host as relying party id, so that passkeys work on sibling hosts too.
    pub fn rp_id(mut self, rp_id: impl Into<String>) -> Self {
        self.rp_id = Some(rp_id.into());
        self
    }

    /// Accepts passkeys from pages of these origins too: front ends on the same domain or its subdomains.
    pub fn origins<S: Into<String>>(mut self, origins: impl IntoIterator<Item = S>) -> Self {
        self.origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// Uses the host's own store.
    pub fn store(mut self, store: Arc<dyn PasskeyStore>) -> Self {
        self.store = Some(store);
        self
    }
}

impl Plugin for PasskeysPlugin {
    fn name(&self) -> &'static str {
        "passkeys"
    }

    fn migrations(&self) -> &'static [Step] {
        if self.store.is_some() { &[] } else { rows::MIGRATIONS }
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let config = &foundation.config;
        let Some(public_url) = &config.public_url else {
            return Err(AuthInitError::Setting {
                setting: "public_url",
                problem: "passkeys are created for its host; set it".to_owned(),
            });
        };
        let store: Arc<dyn PasskeyStore> = match (self.store, &foundation.db) {
            (Some(store), _) => store,
            (None, Some(db)) => Arc::new(SqlPasskeyStore::new(db.clone())),
            (None, None) => Arc::new(MemoryPasskeyStore::new()),
        };
        if store.in_memory() && !config.dev_mode && !config.allow_in_memory_stores {
            return Err(AuthInitError::InMemoryStore { store: "passkey" });
        }
        let rp_id = self.rp_id.as_deref();
        let place = Place { public_url, dev_mode: config.dev_mode, rp_id, origins: &self.origins };
        let party = RelyingParty::new(&place, &self.name)?.map(Arc::new);
        if party.is_none() {
            tracing::info!(%public_url, "passkeys are off: browsers create them only for host names, not for IP addresses");
        }
        let challenges = Arc::new(Challenges::new(config, &foundation.ambient));
        let is_available = party.is_some();
        let of_users = Arc::new(OfUsers::new(store.clone(), is_available));
        let shared = Parts { store, party, challenges: challenges.clone() };
        let of_section = shared.clone();
        Ok(Prepared::new()
            .credentials(of_users.clone())
            .sign_in_credential(of_users)
            .passkeys(is_available)
            .account_section(move |core| Arc::new(PasskeysSection::new(Arc::new(Flow::new(core.clone(), of_section)))))
            .routes(move |core| http::routes(Arc::new(Flow::new(core.clone(), shared)), challenges)))
    }
}

impl std::fmt::Debug for PasskeysPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PasskeysPlugin").field("name", &self.name).finish_non_exhaustive()
    }
}
