//! Buckets in Redis, shared by all replicas. See [`Redis`] for how a token is taken.

use std::future::ready;

use ::redis::Script;

use super::{BucketStore, Level, Rate};
use crate::redis::Redis;
use crate::{Key, StoreError, StoreFuture};

/// Buckets in a Redis server, which keeps one until it is full.
#[derive(Debug)]
pub struct RedisBuckets {
    redis: Redis,
    take: Script,
}

impl RedisBuckets {
    /// Buckets in `redis`, under names that begin with its prefix and `bucket:`.
    pub fn new(redis: Redis) -> Self {
        Self { redis, take: Script::new(include_str!("take.lua")) }
    }
}

impl BucketStore for RedisBuckets {
    fn take<'a>(&'a self, key: &'a Key, rate: &'a Rate) -> StoreFuture<'a, Level> {
        Box::pin(async move {
            let name = self.redis.name("bucket", key);
            let answer: (u8, i64) = self.redis.decide(&self.take, &name, &[rate.interval(), rate.span()]).await?;
            match answer {
                // The server counts in doubles, which may round the longest spans up.
                (admitted @ 0..=1, missing @ 0..) => Ok(rate.level(admitted == 1, missing.min(rate.span()))),
                _ => Err(StoreError::new(format!("redis answered {answer:?}, which is not a level"))),
            }
        })
    }

    /// Nothing: the server drops full buckets by itself.
    fn sweep(&self) -> StoreFuture<'_, u64> {
        Box::pin(ready(Ok(0)))
    }
}
