//! Histories in this process: limited, sharded, lost with the process.
//!
//! The limit is more important than any single history, since clients that can invent keys could otherwise fill the
//! memory. A full [shard](shard) makes room in this order: a key whose history has expired; then the counting key that
//! was idle longest; then, if blocks take more than three quarters of the room, the block that ends soonest. So a flood
//! of new keys displaces only other counting keys and never a block, and a flood of blocks cannot prevent the counting
//! of new keys, which would admit them without limit.
//!
//! The removed key is one of the limiter that has most keys of that kind. So the limiters share the room, each uses what the
//! others leave, and a flood of one limiter's keys never displaces those of another that has fewer: sign-in attempts are
//! still counted during a flood of registrations.

mod order;
mod shard;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::lock::Lock;
use gatewright_base::Ambient;

use self::shard::Shard;
use super::{Blocked, Store, StoreFuture};
use crate::{Key, Policy, Verdict};

/// A store in this process's memory, with the injected clock.
///
/// A key takes about 130 bytes, and 8 more for each time beyond two that [is kept of it](crate::policy): at its default
/// capacity, 13 MB when full of keys that were tried once.
pub struct MemoryStore {
    ambient: Ambient,
    hasher: RandomState,
    shards: Box<[Lock<Shard>]>,
}

impl MemoryStore {
    /// The default limit of keys.
    pub const CAPACITY: usize = 100_000;

    /// A store of [`MemoryStore::CAPACITY`] keys.
    pub fn new(ambient: Ambient) -> Self {
        Self::with_capacity(ambient, Self::CAPACITY)
    }

    /// A store of at most `capacity` keys, at least 1.
    pub fn with_capacity(ambient: Ambient, capacity: usize) -> Self {
        // Small stores are one shard, so that their bound is not cut into pieces too small to be of use.
        let shards = if capacity < 16 * 1024 { 1 } else { 16 };
        let room = (capacity / shards).max(1);
        let hasher = RandomState::new();
        let shards = (0..shards).map(|_| Lock::new(Shard::new(room, hasher.clone()))).collect();
        Self { ambient, hasher, shards }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn now(&self) -> i64 {
        self.ambient.now().as_microsecond()
    }

    /// The hash of a key, and the shard that it belongs to.
    fn place(&self, key: &Key) -> (u64, &Lock<Shard>) {
        let hash = self.hasher.hash_one(key.as_str());
        // The shard's own table looks at the lowest and the highest bits.
        let index = (hash >> 32) % self.shards.len() as u64;
        (hash, &self.shards[usize::try_from(index).unwrap_or_default()])
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn count<'a>(&'a self, key: &'a Key, policy: &'a Policy) -> StoreFuture<'a, (Verdict, i64)> {
        // Lazily, so that an attempt that is never awaited does not count.
        Box::pin(async move {
            let (hash, shard) = self.place(key);
            // The time is taken under the lock, so that attempts are counted in its order.
            let mut shard = shard.lock();
            Ok(shard.attempt(hash, key.as_str(), policy, self.now()))
        })
    }

    fn give_back<'a>(&'a self, key: &'a Key, policy: &'a Policy, at: i64) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let (hash, shard) = self.place(key);
            let mut shard = shard.lock();
            shard.give_back(hash, key.as_str(), policy, (at, self.now()));
            Ok(())
        })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let (hash, shard) = self.place(key);
            shard.lock().forget(hash, key.as_str());
            Ok(())
        })
    }

    fn sweep(&self) -> StoreFuture<'_, u64> {
        Box::pin(async {
            let now = self.now();
            let swept = self.shards.iter().map(|shard| shard.lock().sweep(now)).sum::<usize>();
            Ok(swept as u64)
        })
    }

    fn blocked(&self, limit: u32) -> StoreFuture<'_, Option<Vec<Blocked>>> {
        Box::pin(async move {
            let (now, most) = (self.now(), usize::try_from(limit).unwrap_or(usize::MAX));
            let mut found: Vec<(i64, String)> = Vec::new();
            for shard in &self.shards {
                found.extend(shard.lock().blocked(now, most));
            }
            found.sort_by(|a, b| b.cmp(a));
            found.truncate(most);
            let blocked = found.into_iter().map(|(until, key)| {
                let remaining = Duration::from_micros(u64::try_from(until - now).unwrap_or_default());
                Blocked { key, remaining }
            });
            Ok(Some(blocked.collect()))
        })
    }
}
