//! Buckets in this process: limited, and cheap enough for every request.
//!
//! A bucket that is full again has no information and is dropped: at most once a second, a whole shard is scanned. If a
//! shard is full of buckets in use, it drops the fullest of a few, which gives away the fewest tokens.

use std::hash::{BuildHasher, RandomState};

use crate::lock::Lock;
use gatewright_base::Ambient;
use hashbrown::HashTable;

use super::{BucketStore, Level, Rate};
use crate::{Key, StoreFuture};

/// Buckets in this process's memory, with the injected clock.
pub struct MemoryBuckets {
    ambient: Ambient,
    hasher: RandomState,
    shards: Box<[Lock<Shard>]>,
}

struct Shard {
    room: usize,
    hasher: RandomState,
    buckets: HashTable<Bucket>,
    cleaned_at: i64,
}

struct Bucket {
    key: Key,
    /// When it is full, in microseconds since 1970.
    full_at: i64,
}

impl MemoryBuckets {
    /// The default limit of buckets.
    pub const CAPACITY: usize = 100_000;

    /// A store of [`MemoryBuckets::CAPACITY`] buckets.
    pub fn new(ambient: Ambient) -> Self {
        Self::with_capacity(ambient, Self::CAPACITY)
    }

    /// A store of at most `capacity` buckets, at least 1.
    pub fn with_capacity(ambient: Ambient, capacity: usize) -> Self {
        let shards = if capacity < 16 * 1024 { 1 } else { 16 };
        let room = (capacity / shards).max(1);
        let hasher = RandomState::new();
        let shards = (0..shards).map(|_| Lock::new(Shard::new(room, hasher.clone()))).collect();
        Self { ambient, hasher, shards }
    }

    /// The number of buckets.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().buckets.len()).sum()
    }

    /// Whether there are no buckets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn now(&self) -> i64 {
        self.ambient.now().as_microsecond()
    }

    /// The hash of a key, and the shard that it belongs to.
    fn place(&self, key: &Key) -> (u64, &Lock<Shard>) {
        let hash = self.hasher.hash_one(key);
        // The shard's own table looks at the lowest and the highest bits.
        let index = (hash >> 32) % self.shards.len() as u64;
        (hash, &self.shards[usize::try_from(index).unwrap_or_default()])
    }
}

impl BucketStore for MemoryBuckets {
    fn take<'a>(&'a self, key: &'a Key, rate: &'a Rate) -> StoreFuture<'a, Level> {
        Box::pin(async move {
            let (hash, shard) = self.place(key);
            // The time is taken under the lock, so that tokens are taken in its order.
            let mut shard = shard.lock();
            Ok(shard.take(hash, key, rate, self.now()))
        })
    }

    fn sweep(&self) -> StoreFuture<'_, u64> {
        Box::pin(async {
            let now = self.now();
            let swept = self.shards.iter().map(|shard| shard.lock().clean(now)).sum::<usize>();
            Ok(swept as u64)
        })
    }
}

impl std::fmt::Debug for MemoryBuckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBuckets").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Shard {
    fn new(room: usize, hasher: RandomState) -> Self {
        Self { room, hasher, buckets: HashTable::new(), cleaned_at: i64::MIN }
    }

    fn take(&mut self, hash: u64, key: &Key, rate: &Rate, now: i64) -> Level {
        if let Some(bucket) = self.buckets.find_mut(hash, |bucket| bucket.key == *key) {
            let (level, after) = rate.take(bucket.full_at, now);
            bucket.full_at = after;
            return level;
        }
        if self.buckets.len() >= self.room {
            self.make_room(now);
        }
        let (level, full_at) = rate.take(now, now);
        let fresh = Bucket { key: key.clone(), full_at };
        self.buckets.insert_unique(hash, fresh, |bucket| self.hasher.hash_one(&bucket.key));
        level
    }

    fn make_room(&mut self, now: i64) {
        const PAUSE: i64 = 1_000_000;
        let due = now < self.cleaned_at || now.saturating_sub(self.cleaned_at) >= PAUSE;
        if due && self.clean(now) > 0 {
            return;
        }
        let fullest = self.buckets.iter().take(8).min_by_key(|bucket| bucket.full_at);
        let Some(key) = fullest.map(|bucket| bucket.key.clone()) else { return };
        if let Ok(found) = self.buckets.find_entry(self.hasher.hash_one(&key), |bucket| bucket.key == key) {
            found.remove();
        }
    }

    fn clean(&mut self, now: i64) -> usize {
        let before = self.buckets.len();
        self.buckets.retain(|bucket| bucket.full_at > now);
        self.cleaned_at = now;
        before - self.buckets.len()
    }
}
