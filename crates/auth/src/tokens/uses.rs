//! Records when tokens were last used, without a write for each request.
//!
//! A use is put into a map. The first one starts a task that waits a few seconds and then writes all uses in the map in
//! one step. A use within a minute of the stored one is ignored. So a token in constant use causes one write a minute,
//! together with other tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::TokenId;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{StoredToken, TokenStore};

/// Uses that are not stored yet. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Uses(Arc<Inner>);

struct Inner {
    store: Arc<dyn TokenStore>,
    waiting: Mutex<HashMap<TokenId, Timestamp>>,
}

/// How long the first use waits for others.
const GATHER: Duration = Duration::from_secs(5);

/// How much younger a use must be than the last one written down.
const PRECISION: SignedDuration = SignedDuration::from_mins(1);

/// Most tokens at a time, a bound on memory. The uses beyond it are not recorded.
const CAPACITY: usize = 100_000;

impl Uses {
    pub(crate) fn new(store: Arc<dyn TokenStore>) -> Self {
        Self(Arc::new(Inner { store, waiting: Mutex::default() }))
    }

    /// Notes that `token` is used at `now`.
    pub(crate) fn note(&self, token: &StoredToken, now: Timestamp) {
        if token.last_used_at.is_some_and(|last| now.duration_since(last) < PRECISION) {
            return;
        }
        let mut waiting = self.0.waiting.lock();
        if waiting.len() >= CAPACITY && !waiting.contains_key(&token.id) {
            return;
        }
        let first = waiting.is_empty();
        let at = waiting.entry(token.id.clone()).or_insert(now);
        *at = now.max(*at);
        drop(waiting);
        if first {
            let uses = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(GATHER).await;
                uses.write_down().await;
            });
        }
    }

    /// Stores the waiting uses. A failure is logged; the next use is noted again.
    pub(crate) async fn write_down(&self) {
        let waiting: Vec<_> = std::mem::take(&mut *self.0.waiting.lock()).into_iter().collect();
        if waiting.is_empty() {
            return;
        }
        if let Err(error) = self.0.store.touch(&waiting).await {
            tracing::warn!(%error, tokens = waiting.len(), "the last use of API tokens could not be stored");
        }
    }

    /// Adds the uses that are not stored yet to `tokens`.
    pub(crate) fn overlay(&self, tokens: &mut [StoredToken]) {
        let waiting = self.0.waiting.lock();
        for token in tokens {
            token.last_used_at = token.last_used_at.max(waiting.get(&token.id).copied());
        }
    }
}
