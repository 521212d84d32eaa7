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
    give_back: Script,
    blocks: Blocks,
}

impl RedisStore {
    /// A store in `redis`, under names that begin with its prefix and `limit:`.
    pub fn new(redis: Redis, ambient: Ambient) -> Self {
        let script = Script::new;
        Self {
            redis,
            attempt: script(include_str!("attempt.lua")),
            give_back: script(include_str!("give_back.lua")),
            blocks: Blocks::new(ambient),
        }
    }

    fn name(&self, key: &Key) -> String {
        self.redis.name("limit", key)
    }

    async fn decide(&self, key: &Key, policy: &Policy) -> Result<(Verdict, i64), StoreError> {
        if let Some(retry_after) = self.blocks.remaining(key) {
            return Ok((Verdict::Blocked { retry_after }, 0));
        }
        let arguments = [
            policy.window_micros(),
            policy.block_micros(),
            policy.max_attempts().into(),
            policy.attempts_per_mark().into(),
            policy.marks().into(),
        ];
        let (wait, at): (i64, i64) = self.redis.decide(&self.attempt, &self.name(key), &arguments).await?;
        if wait == 0 {
            return Ok((Verdict::Admitted, at));
        }
        if !(1..=policy.block_micros()).contains(&wait) {
            return Err(StoreError::new(format!("redis answered a block of {wait} microseconds")));
        }
        let retry_after = Duration::from_micros(wait.unsigned_abs());
        self.blocks.note(key, retry_after);
        Ok((Verdict::Blocked { retry_after }, 0))
    }

    async fn take_back(&self, key: &Key, policy: &Policy, at: i64) -> Result<(), StoreError> {
        let arguments = [policy.window_micros(), policy.attempts_per_mark().into(), at];
        self.redis.decide(&self.give_back, &self.name(key), &arguments).await
    }
}

impl Store for RedisStore {
    fn count<'a>(&'a self, key: &'a Key, policy: &'a Policy) -> StoreFuture<'a, (Verdict, i64)> {
        Box::pin(self.decide(key, policy))
    }

    fn give_back<'a>(&'a self, key: &'a Key, policy: &'a Policy, at: i64) -> StoreFuture<'a, ()> {
        Box::pin(self.take_back(key, policy, at))
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
