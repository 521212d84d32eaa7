//! Histories in Redis: shared by all replicas, expired when they have no effect. See [`Redis`] for how a decision is
//! made.

use std::fmt;
use std::future::ready;
use std::time::Duration;

use ::redis::Script;
use gatewright_base::Ambient;

use super::blocks::Blocks;
use super::{Store, StoreError, StoreFuture};
use crate::redis::Redis;
use crate::{Key, Policy, Verdict};

/// A store in a Redis server, which keeps a key for the rest of its window or block.
///
/// A key that is blocked is refused from memory for up to a second at a time, so that hammering it costs the server next
/// to nothing.
pub struct RedisStore {
    redis: Redis,
    attempt: Script,
    blocks: Blocks,
}

impl RedisStore {
    /// A store in `redis`, under names that begin with its prefix and `limit:`.
    pub fn new(redis: Redis, ambient: Ambient) -> Self {
        Self { redis, attempt: Script::new(include_str!("attempt.lua")), blocks: Blocks::new(ambient) }
    }

    fn name(&self, key: &Key) -> String {
        self.redis.name("limit", key)
    }

    async fn count(&self, key: &Key, policy: &Policy) -> Result<Verdict, StoreError> {
        if let Some(retry_after) = self.blocks.remaining(key) {
            return Ok(Verdict::Blocked { retry_after });
        }
        let arguments = [
            policy.window_micros(),
            policy.block_micros(),
            policy.max_attempts().into(),
            policy.attempts_per_mark().into(),
            policy.marks().into(),
        ];
        let wait: i64 = self.redis.decide(&self.attempt, &self.name(key), &arguments).await?;
        if wait == 0 {
            return Ok(Verdict::Admitted);
        }
        if !(1..=policy.block_micros()).contains(&wait) {
            return Err(StoreError::new(format!("redis answered a block of {wait} microseconds")));
        }
        let retry_after = Duration::from_micros(wait.unsigned_abs());
        self.blocks.note(key, retry_after);
        Ok(Verdict::Blocked { retry_after })
    }
}

impl Store for RedisStore {
    fn attempt<'a>(&'a self, key: &'a Key, policy: &'a Policy) -> StoreFuture<'a, Verdict> {
        Box::pin(self.count(key, policy))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let removed = self.redis.remove(&self.name(key)).await;
            self.blocks.forget(key);
            removed
        })
    }

    /// Nothing: the server drops keys by itself.
    fn sweep(&self) -> StoreFuture<'_, u64> {
        Box::pin(ready(Ok(0)))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("redis", &self.redis).finish_non_exhaustive()
    }
}
