//! Removes expired data in small batches, so that tables do not grow without limit and no caller waits for a large
//! delete.

use std::future::Future;

use jiff::{SignedDuration, Timestamp};

use crate::auth::Auth;
use crate::core::Core;
use crate::guests;
use crate::removal;
use crate::tokens;
use crate::users::BoxError;

/// Rows of one statement.
const BATCH: u32 = 500;
/// The most statements for one table in one sweep. The remaining rows are left for the next sweep.
const BATCHES: u32 = 100;

impl Auth {
    /// Removes expired sessions, links, invitations, stream tickets and keys of JWTs, devices that were not used for 180 days, API
    /// tokens that were revoked 90 days ago, and audit events older than
    /// [`AuthConfig::audit_retention`](crate::AuthConfig::audit_retention). Continues to delete accounts in the
    /// background, and once an hour begins to delete idle guests. Reads the keys of JWTs again, and rotates them. Once an hour it also asks the user store which settings its password hashes have. Returns how many
    /// rows were removed. Call it every minute or so; several replicas may call it at the same time. An error of a
    /// store is logged, and its rows are left for the next call.
    pub async fn sweep(&self) -> u64 {
        let removed = sweep(self.core()).await;
        removal::sweep(self.core());
        guests::sweep(self.core());
        removed
    }
}

async fn sweep(core: &Core) -> u64 {
    let now = core.ambient.now();
    let mut removed = in_batches("sessions", async || Ok(core.sessions.sweep(now, BATCH).await?)).await;
    if let Some(impersonations) = &core.impersonations {
        removed += in_batches("impersonations", async || Ok(impersonations.sweep(now, BATCH).await?)).await;
    }
    removed += in_batches("single-use tokens", async || Ok(core.single_use.sweep(now, BATCH).await?)).await;
    if let Some(tickets) = &core.stream_tickets {
        removed += in_batches("stream tickets", async || Ok(tickets.sweep(BATCH).await?)).await;
    }
    if let Some(devices) = &core.devices {
        removed += in_batches("known devices", async || Ok(devices.sweep(BATCH).await?)).await;
    }
    if let Some(changes) = &core.email_changes {
        removed += in_batches("changes of addresses", async || Ok(changes.sweep(now, BATCH).await?)).await;
    }
    if let Some(invitations) = &core.invitations {
        removed += in_batches("invitations", async || Ok(invitations.sweep(now, BATCH).await?)).await;
    }
    if let Some(tokens) = &core.tokens {
        let forgotten = earlier(now, tokens::REMEMBERED);
        removed += in_batches("API tokens", async || Ok(tokens.store.sweep(forgotten, BATCH).await?)).await;
    }
    if let (Some(sink), Some(retention)) = (core.audit.sink(), core.config.audit_retention) {
        let before = earlier(now, SignedDuration::try_from(retention).unwrap_or(SignedDuration::MAX));
        removed += in_batches("audit events", async || sink.sweep(before, BATCH).await).await;
    }
    match core.jwts.sweep().await {
        Ok(count) => removed += count,
        Err(error) => tracing::warn!(%error, "cannot read or rotate the keys of JWTs"),
    }
    if let Some(stored) = core.users.hash_settings.as_ref().filter(|_| core.passwords.settings_are_old()) {
        match stored.hash_settings().await {
            Ok(stored) => core.passwords.stored_settings(stored.settings),
            Err(error) => tracing::warn!(%error, "cannot read the settings of stored password hashes"),
        }
    }
    removed
}

fn earlier(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

async fn in_batches<F: Future<Output = Result<u64, BoxError>>>(what: &str, batch: impl Fn() -> F) -> u64 {
    let mut removed = 0;
    for _ in 0..BATCHES {
        match batch().await {
            Ok(count) => {
                removed += count;
                if count < u64::from(BATCH) {
                    break;
                }
            }
            Err(error) => {
                tracing::warn!(what, %error, "cannot remove expired rows");
                break;
            }
        }
        // Others get their turn between two batches.
        tokio::task::yield_now().await;
    }
    removed
}
