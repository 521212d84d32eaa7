//! Two-factor authentication: a code from an authenticator app (TOTP, RFC 6238), or a backup code, beside the first
//! factor.
//!
//! The journey of an enrollment: `http.rs` takes `enroll` from a session, `flow.rs` draws a secret (`totp.rs`) and has
//! the store keep it as begun, and `qr.rs` draws the picture for the app. `verify` with a first code enables the factor
//! together with ten backup codes (`codes.rs`), refuses the JWTs of before, and marks the session as verified.
//!
//! The journey of a sign-in: the mint asks this plugin ([`SecondFactor`]) and makes a pending session; `challenge`
//! counts the attempt, spends the code in the store, and only then takes the pending session to the mint once more,
//! which puts one in good standing, with a new id, in its place.
//!
//! # What must hold
//!
//! A code wins once. Which of any number of concurrent callers it is, on any number of replicas, the store decides with
//! one conditional write ([`TwoFactorStore::spend_step`], [`TwoFactorStore::spend_backup_code`]): a step of time is
//! spent together with all before it, and a backup code by being deleted. Looking first and writing afterwards would
//! be a race.
//!
//! The secret is kept as base32 text, since the service must compute codes with it: encryption at rest is the
//! operator's duty. Backup codes are kept as hashes.

mod codes;
mod flow;
mod http;
mod memory;
mod qr;
mod rows;
mod screen;
mod section;
mod store;
mod totp;

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Ambient, Secret, UserId};
use gatewright_db::Step;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};
use crate::session::SecondFactor;
use crate::users::BoxError;

pub use codes::CodeHash;
pub(crate) use flow::{Flow, TwoFactorError};
pub use memory::MemoryTwoFactorStore;
pub use rows::SqlTwoFactorStore;
use section::SecondFactorSection;
pub use store::{Factor, TwoFactorStore, TwoFactorStoreError};
pub use totp::TotpSecret;

/// The two-factor plugin.
///
/// Without a store of the host's own, factors are kept in the database or, if there is none, in memory.
pub struct TwoFactorPlugin {
    issuer: String,
    store: Option<Arc<dyn TwoFactorStore>>,
}

impl TwoFactorPlugin {
    /// A plugin whose accounts are named after `issuer` in authenticator apps: 1 to 64 characters and no colon.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self { issuer: issuer.into(), store: None }
    }

    /// Takes the host's own store.
    pub fn store(mut self, store: Arc<dyn TwoFactorStore>) -> Self {
        self.store = Some(store);
        self
    }

    fn settle_store(&mut self, foundation: &Foundation) -> Result<Arc<dyn TwoFactorStore>, AuthInitError> {
        let store: Arc<dyn TwoFactorStore> = match (self.store.take(), &foundation.db) {
            (Some(store), _) => store,
            (None, Some(db)) => Arc::new(SqlTwoFactorStore::new(db.clone())),
            (None, None) => Arc::new(MemoryTwoFactorStore::new()),
        };
        if store.in_memory() && !foundation.config.dev_mode {
            if !foundation.config.allow_in_memory_stores {
                return Err(AuthInitError::InMemoryStore { store: "2FA" });
            }
            tracing::warn!(
                "second factors are stored in memory: a restart deletes them, and a password alone signs in again"
            );
        }
        Ok(store)
    }
}

impl Plugin for TwoFactorPlugin {
    fn name(&self) -> &'static str {
        "two_factor"
    }

    fn migrations(&self) -> &'static [Step] {
        if self.store.is_some() { &[] } else { rows::MIGRATIONS }
    }

    fn prepare(mut self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let issuer = totp::Issuer::parse(&self.issuer)
            .map_err(|problem| AuthInitError::Setting { setting: "two_factor.issuer", problem })?;
        let store = self.settle_store(foundation)?;
        let factor = Arc::new(StoredFactor { store: store.clone(), ambient: foundation.ambient.clone() });
        let (store_of_section, issuer_of_section) = (store.clone(), issuer.clone());
        Ok(Prepared::new()
            .account_section(move |core| {
                let flow = Flow::new(core.clone(), store_of_section, issuer_of_section);
                Arc::new(SecondFactorSection::new(Arc::new(flow)))
            })
            .second_factor(factor)
            .second_factor_screen(screen::PATH)
            .routes(move |core| http::routes(Arc::new(Flow::new(core.clone(), store, issuer))))
            .screens(|core| screen::routes(core.clone())))
    }
}

impl std::fmt::Debug for TwoFactorPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TwoFactorPlugin").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// What the mint asks.
struct StoredFactor {
    store: Arc<dyn TwoFactorStore>,
    ambient: Ambient,
}

#[async_trait]
impl SecondFactor for StoredFactor {
    async fn enabled(&self, user: &UserId) -> Result<bool, BoxError> {
        Ok(self.store.find(user).await?.is_some_and(|factor| factor.enabled))
    }

    async fn remove(&self, user: &UserId) -> Result<bool, BoxError> {
        Ok(self.store.remove(user).await?)
    }

    async fn prove(&self, user: &UserId, code: &Secret) -> Result<bool, BoxError> {
        let Some(factor) = self.store.find(user).await?.filter(|factor| factor.enabled) else { return Ok(false) };
        Ok(flow::spend(&*self.store, &self.ambient, user, &factor, code).await?.is_some())
    }
}
