//! The stores of histories: in this process, or in a backend that all replicas share.

#[cfg(any(feature = "sql", feature = "redis"))]
mod blocks;
mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sql")]
mod sql;

use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;
#[cfg(feature = "sql")]
pub use sql::SqlStore;

use crate::{Key, Policy, Verdict};

/// The result of a store's operations.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps the histories of keys. One instance may back every limiter, since keys carry their limiter's scope.
///
/// An implementation must behave as [`decide`](crate::policy::decide) does, with the backend's own clock where there are
/// several replicas, and must do so as one atomic step in one round trip: of any number of parallel attempts, at most
/// [`Policy::max_attempts`] are admitted. A future that is dropped has counted its attempt or has not, nothing between.
pub trait Store: Send + Sync + 'static {
    /// Counts one attempt of `key`. Returns whether it is admitted, and the time under which it counts.
    fn count<'a>(&'a self, key: &'a Key, policy: &'a Policy) -> StoreFuture<'a, (Verdict, i64)>;

    /// The same without the time.
    fn attempt<'a>(&'a self, key: &'a Key, policy: &'a Policy) -> StoreFuture<'a, Verdict> {
        let counted = self.count(key, policy);
        Box::pin(async move { Ok(counted.await?.0) })
    }

    /// Takes back the attempt of `key` that counts under the time `at`, as
    /// [`give_back`](crate::policy::give_back) does.
    fn give_back<'a>(&'a self, key: &'a Key, policy: &'a Policy, at: i64) -> StoreFuture<'a, ()>;

    /// Forgets `key`: its count and its block.
    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, ()>;

    /// Removes keys without effect and returns their number. Backends that expire keys by themselves have nothing to
    /// do.
    fn sweep(&self) -> StoreFuture<'_, u64>;

    /// Keys that are blocked at present, at most `limit`; those whose block ends last come first. `None` if the store
    /// cannot list them.
    fn blocked(&self, limit: u32) -> StoreFuture<'_, Option<Vec<Blocked>>> {
        let _ = limit;
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A key that is blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The key: the limiter's scope, a colon, and the counted value.
    pub key: String,
    /// For how long from now.
    pub remaining: Duration,
}

/// A store could not answer. The limiter then refuses.
#[derive(Debug, thiserror::Error)]
#[error("the rate-limit store cannot answer")]
pub struct StoreError(#[source] Box<dyn Error + Send + Sync>);

impl StoreError {
    /// Wraps the backend's error.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}
