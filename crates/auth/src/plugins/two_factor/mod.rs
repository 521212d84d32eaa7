//! Two-factor authentication: a code from an authenticator app (TOTP, RFC 6238), or a backup code, in addition to the
//! first factor.
//!
//! Enrollment: `http.rs` accepts `enroll` from a young session or with a fresh proof (`fresh.rs` of this crate),
//! `flow.rs` draws a secret (`totp.rs`) and stores it as not yet enabled, and `qr.rs` draws the picture for the app.
//! `verify` in the same session with a first code enables the factor together with ten backup codes (`codes.rs`),
//! refuses earlier JWTs, and marks the session as verified.
//!
//! Sign-in: the mint calls this plugin ([`SecondFactor`]) and creates a pending session. `challenge` counts the
//! attempt, spends the code in the store, and only then calls the mint again, which replaces the pending session by a
//! full one with a new id.
//!
//! # Invariants
//!
//! A code works once. For concurrent callers on any number of replicas, the store decides with one conditional write
//! which one succeeds ([`TwoFactorStore::spend_step`], [`TwoFactorStore::spend_backup_code`]): a time step is spent
//! together with all earlier ones, and a backup code is deleted. A read followed by a write would be a race.
//!
//! A stolen session that is not young enrolls no factor, sees no secret, draws no backup codes and disables nothing.
//!
//! The secret is stored as base32 text, because the service must compute codes with it. Encryption at rest is up to the
//! operator. Backup codes are stored as hashes.

mod codes;
mod enabling;
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
use jiff::Timestamp;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};
use crate::session::{AddedFactor, SecondFactor};
use crate::users::BoxError;

pub use codes::CodeHash;
use flow::Parts;
pub(crate) use flow::{Flow, TwoFactorError};
pub use memory::MemoryTwoFactorStore;
pub use rows::SqlTwoFactorStore;
use section::SecondFactorSection;
pub use store::{Begun, Factor, TwoFactorStore, TwoFactorStoreError, TwoFactorsWithin};
pub use totp::TotpSecret;

/// The two-factor plugin.
///
/// Without a host's own store, factors are stored in the database or, if there is none, in memory.
pub struct TwoFactorPlugin {
    issuer: String,
    store: Option<Arc<dyn TwoFactorStore>>,
}

impl TwoFactorPlugin {
    /// A plugin whose accounts have the issuer `issuer` in authenticator apps: 1 to 64 characters without a colon.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self { issuer: issuer.into(), store: None }
    }

    /// Uses the host's own store.
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
        let parts = Parts { store, issuer };
        let of_section = parts.clone();
        Ok(Prepared::new()
            .account_section(move |core| {
                Arc::new(SecondFactorSection::new(Arc::new(Flow::new(core.clone(), of_section))))
            })
            .second_factor(factor)
            .second_factor_screen(screen::PATH)
            .routes(move |core| http::routes(Arc::new(Flow::new(core.clone(), parts))))
            .screens(|core| screen::routes(core.clone())))
    }
}

impl std::fmt::Debug for TwoFactorPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TwoFactorPlugin").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// The interface for the mint.
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

    async fn added_since(&self, user: &UserId, since: Timestamp) -> Result<AddedFactor, BoxError> {
        let Some(factor) = self.store.find(user).await? else { return Ok(AddedFactor::Nothing) };
        if factor.begun.is_none_or(|begun| begun.at >= since) {
            return Ok(AddedFactor::Factor);
        }
        let replaced_at = self.store.backup_codes_replaced_at(user).await?;
        let is_new = replaced_at.is_some_and(|at| at >= since);
        Ok(if is_new { AddedFactor::BackupCodes } else { AddedFactor::Nothing })
    }

    async fn remove_since(&self, user: &UserId, since: Timestamp) -> Result<AddedFactor, BoxError> {
        let added = self.added_since(user, since).await?;
        match added {
            AddedFactor::Nothing => {}
            AddedFactor::BackupCodes => {
                self.store.replace_backup_codes(user, &[], self.ambient.now()).await?;
            }
            AddedFactor::Factor => {
                self.store.remove(user).await?;
            }
        }
        Ok(added)
    }
}
