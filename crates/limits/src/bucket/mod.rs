//! The token bucket: a sustained rate with a burst, and headers that show a caller its budget.
//!
//! A bucket contains `burst` tokens and gains one every `1 / per_second`; a request takes one or is refused. Only one value
//! of a bucket is stored: the time at which it will be full again (the generic cell rate algorithm of ATM networks). So
//! taking a token is one small step in memory and one statement in a database.
//!
//! `TokenBucketLayer` (feature `http`) answers with `RateLimit-Limit` (the burst), `RateLimit-Remaining` and `RateLimit-Reset` (whole seconds
//! until the bucket is full), and refuses like the limiter does.

#[cfg(feature = "http")]
mod layer;
mod memory;
mod rate;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sql")]
mod sql;

use std::sync::Arc;

use gatewright_base::{Ambient, Live};

#[cfg(feature = "http")]
pub use layer::TokenBucketLayer;
pub use memory::MemoryBuckets;
pub use rate::{InvalidRate, Level, Rate};
#[cfg(feature = "redis")]
pub use redis::RedisBuckets;
#[cfg(feature = "sql")]
pub use sql::SqlBuckets;

#[cfg(feature = "http")]
use crate::address::Address;
use crate::fail_closed::FailClosed;
use crate::{Denied, Key, StoreFuture};

/// Keeps buckets. An implementation must behave as [`Rate::take`] does, as one atomic step.
pub trait BucketStore: Send + Sync + 'static {
    /// Takes one token from the bucket of `key`, if there is one.
    fn take<'a>(&'a self, key: &'a Key, rate: &'a Rate) -> StoreFuture<'a, Level>;

    /// Removes the full buckets, which are equivalent to unknown ones, and returns their number.
    fn sweep(&self) -> StoreFuture<'_, u64>;
}

/// A named rate: one bucket for each key of one scope. Cheap to clone; clones share their buckets.
#[derive(Clone)]
pub struct TokenBucket {
    pub(crate) scope: Arc<str>,
    rate: Live<Rate>,
    store: Arc<dyn BucketStore>,
    fail_closed: FailClosed,
    #[cfg(feature = "http")]
    pub(crate) address: Address,
}

impl TokenBucket {
    /// Buckets in `store`, separate from those of other scopes.
    pub fn new(scope: &str, rate: Rate, store: Arc<dyn BucketStore>) -> Self {
        Self {
            scope: scope.into(),
            rate: Live::new(rate),
            store,
            fail_closed: FailClosed::default(),
            #[cfg(feature = "http")]
            address: Address::default(),
        }
    }

    /// Buckets of this process.
    pub fn in_memory(scope: &str, rate: Rate, ambient: Ambient) -> Self {
        Self::new(scope, rate, Arc::new(MemoryBuckets::new(ambient)))
    }

    /// Takes a token of `key`, and returns what is left or that there was none. `Err` if the store does not answer:
    /// then the request must be refused.
    pub async fn take(&self, key: &str) -> Result<Level, Denied> {
        self.take_at(key, &self.rate()).await
    }

    /// [`TokenBucket::take`] at another rate, which must be the same for every request of the key.
    pub(crate) async fn take_at(&self, key: &str, rate: &Rate) -> Result<Level, Denied> {
        let key = Key::new(&self.scope, key);
        self.fail_closed.ask(&self.scope, self.store.take(&key, rate)).await
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        *self.rate.get()
    }

    /// Replaces the rate, also of all clones.
    pub fn set_rate(&self, rate: Rate) {
        self.rate.set(rate);
    }
}

impl std::fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenBucket").field("scope", &self.scope).field("rate", &self.rate).finish_non_exhaustive()
    }
}
