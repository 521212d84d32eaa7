use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, Live};

#[cfg(feature = "http")]
use crate::address::Address;
use crate::fail_closed::FailClosed;
use crate::{Denied, Key, MemoryStore, Policy, Store, StoreError, Verdict};

/// A named limit: a [`Policy`] over the keys of one scope. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Limiter(pub(crate) Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) scope: Arc<str>,
    policy: Live<Policy>,
    store: Arc<dyn Store>,
    fail_closed: FailClosed,
    #[cfg(feature = "http")]
    pub(crate) address: Address,
    dev_mode: bool,
}

impl Limiter {
    /// How long a caller is sent away when the store cannot answer.
    pub const STORE_DOWN_RETRY: Duration = FailClosed::RETRY;

    /// A limiter whose keys are in `store`, separate from those of other scopes.
    pub fn new(scope: &str, policy: Policy, store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Inner {
            scope: scope.into(),
            policy: Live::new(policy),
            store,
            fail_closed: FailClosed::default(),
            #[cfg(feature = "http")]
            address: Address::default(),
            dev_mode: false,
        }))
    }

    /// A limiter with its own [`MemoryStore`]: its limits apply per process.
    pub fn in_memory(scope: &str, policy: Policy, ambient: Ambient) -> Self {
        Self::new(scope, policy, Arc::new(MemoryStore::new(ambient)))
    }

    /// Admits every attempt without touching the store.
    pub fn dev_mode(self, on: bool) -> Self {
        self.with(|inner| inner.dev_mode = on)
    }

    /// How long the store may take (default: 5 seconds) before the attempt is refused.
    pub fn store_timeout(self, timeout: Duration) -> Self {
        self.with(|inner| inner.fail_closed.timeout = timeout)
    }

    /// Counts one attempt of `key`; `Err` if it must be refused.
    ///
    /// A store that fails, or takes longer than [`Limiter::store_timeout`], refuses with [`Limiter::STORE_DOWN_RETRY`].
    /// The future may be dropped at any time: the attempt has then counted or not, and the limiter continues normally.
    pub async fn attempt(&self, key: &str) -> Result<(), Denied> {
        self.begin(key).await.map(drop)
    }

    /// Like [`Limiter::attempt`], for attempts of which only failures should count: a success gives its own attempt back.
    pub async fn begin(&self, key: &str) -> Result<Attempt, Denied> {
        let mut attempt = Attempt(Vec::new());
        self.add_to(&mut attempt, key, self.policy()).await.map(|()| attempt)
    }

    /// Counts a key of an attempt under a policy, which must be the same for every attempt of the key.
    pub(crate) async fn add_to(&self, attempt: &mut Attempt, key: &str, policy: Policy) -> Result<(), Denied> {
        if self.0.dev_mode {
            return Ok(());
        }
        let key = Key::new(&self.0.scope, key);
        let answer = self.0.store.count(&key, &policy);
        match self.0.fail_closed.ask(&self.0.scope, answer).await? {
            (Verdict::Admitted, at) => attempt.0.push(Counted { limiter: self.clone(), key, policy, at }),
            (Verdict::Blocked { retry_after }, _) => return Err(Denied::Limit { retry_after }),
        }
        Ok(())
    }

    /// Forgets `key`: its count and its block. `Err` if the store cannot.
    pub async fn forget(&self, key: &str) -> Result<(), StoreError> {
        self.0.store.forget(&Key::new(&self.0.scope, key)).await
    }

    /// The scope.
    pub fn scope(&self) -> &str {
        &self.0.scope
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        *self.0.policy.get()
    }

    /// Replaces the policy, also of all clones. Attempts that were counted before stay counted.
    pub fn set_policy(&self, policy: Policy) {
        self.0.policy.set(policy);
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

/// An admitted attempt. It counts, unless it is given back.
#[derive(Debug)]
pub struct Attempt(Vec<Counted>);

/// A key for which an attempt was counted.
#[derive(Debug)]
struct Counted {
    limiter: Limiter,
    key: Key,
    policy: Policy,
    at: i64,
}

impl Attempt {
    /// Makes this attempt as if it had never been made, because it was a success. It can be given back once, no other attempt is,
    /// and a key that is blocked stays blocked. If the store fails, or the future is dropped, the attempt may still count.
    pub async fn give_back(self) {
        for Counted { limiter, key, policy, at } in self.0 {
            let answer = limiter.0.store.give_back(&key, &policy, at);
            if limiter.0.fail_closed.ask(&limiter.0.scope, answer).await.is_err() {
                tracing::warn!(scope = &*limiter.0.scope, "a successful attempt still counts: the store cannot answer");
            }
        }
    }

    /// An attempt without a key yet.
    #[cfg(feature = "http")]
    pub(crate) fn empty() -> Self {
        Self(Vec::new())
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { scope, policy, dev_mode, .. } = &*self.0;
        f.debug_struct("Limiter")
            .field("scope", scope)
            .field("policy", policy)
            .field("dev_mode", dev_mode)
            .finish_non_exhaustive()
    }
}
