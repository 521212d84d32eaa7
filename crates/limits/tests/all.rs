//! The limiter as a program uses it: stores, calls and routes.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "all/bed.rs"]
mod bed;
#[path = "all/bucket.rs"]
mod bucket;
#[path = "all/bucket_stores.rs"]
mod bucket_stores;
#[path = "all/layer.rs"]
mod layer;
#[path = "all/limiter.rs"]
mod limiter;
#[path = "all/memory.rs"]
mod memory;
#[path = "all/outage.rs"]
mod outage;
#[path = "all/redis.rs"]
mod redis;
#[path = "all/shared.rs"]
mod shared;
#[path = "all/stores.rs"]
mod stores;
