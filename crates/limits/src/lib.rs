//! The lockout limiter: at most N attempts per window, then a block for a fixed time.
//!
//! It prevents guessing (passwords, codes, tokens), and limits other expensive requests. The [token bucket](bucket) is
//! the alternative: a sustained rate with a burst, for whole interfaces and not against guessing.
//!
//! # A route
//!
//! A layer counts each request as an attempt of a key, by default the client's address. One route of a plain axum
//! program:
//!
#![cfg_attr(feature = "http", doc = "```")]
#![cfg_attr(not(feature = "http"), doc = "```ignore")]
//! use std::net::SocketAddr;
//! use std::time::Duration;
//!
//! use axum::Router;
//! use axum::routing::{get, post};
//! use gatewright_base::Ambient;
//! use gatewright_limits::{Limiter, LimiterLayer, Policy};
//!
//! let policy = Policy::new(5, Duration::from_secs(60), Duration::from_secs(600));
//! let limiter = Limiter::in_memory("search", policy, Ambient::system());
//! let app: Router = Router::new()
//!     .route("/search", post(async || "found").layer(LimiterLayer::by_address(limiter)))
//!     .route("/", get(async || "as often as you like"));
//!
//! // The address of the client must be known: serve the program with its connect info.
//! let service = app.into_make_service_with_connect_info::<SocketAddr>();
//! # let _ = service;
//! ```
//!
//! A refused request never reaches the route. It is answered with 429, `Retry-After` in whole seconds and the plain text
//! `rate limit exceeded`. `cargo run -p gatewright-limits --example one_route` runs such a program, on any store.
//!
//! # A piece of code
//!
//! ```
//! # use gatewright_limits::{Denied, Limiter};
//! async fn remind(limiter: &Limiter, email: &str) -> Result<(), Denied> {
//!     limiter.attempt(email).await?;
//!     // … send it …
//!     Ok(())
//! }
//! ```
//!
//! Where only failures should count, [`Limiter::begin`] counts the attempt first, and a success gives back its own
//! ([`Attempt::give_back`]): no number of parallel attempts gets past the limit, and a success resets nothing.
//!
//! # Stores
//!
//! Limits apply per process with [`MemoryStore`], and to all replicas together with the others. One instance may serve
//! every limiter: keys contain their limiter's scope.
//!
//! | Store | Buckets | Where | For |
//! |---|---|---|---|
//! | [`MemoryStore`] | [`MemoryBuckets`](bucket::MemoryBuckets) | this process, bounded | one replica |
#![cfg_attr(
    feature = "sql",
    doc = "| [`SqlStore`] | [`SqlBuckets`](bucket::SqlBuckets) | SQLite or Postgres | replicas that share a database; blocks survive restarts |"
)]
#![cfg_attr(
    feature = "redis",
    doc = "| [`RedisStore`] | [`RedisBuckets`](bucket::RedisBuckets) | Redis 5 or newer | replicas, many decisions a second |"
)]
//!
//! All of them are exact: an attempt is one atomic step, and with a server one round trip, by that server's clock. N
//! parallel attempts on any number of replicas never admit more than the policy does, and neither does any period as
//! long as the window; [`policy`] describes the rule and the stored data.
//!
//! [`Store::sweep`] removes expired rows of `SqlStore`; call it regularly, for example every minute.
//!
//! # When a store fails
//!
//! Every failure refuses, with a `Retry-After` of five seconds: an unavailable store must not allow guessing. It is
//! logged once when it begins and once when it ends. Stores recover by themselves.
//!
//! # Features
//!
//! All are on by default. Without them the crate is limiters and buckets in memory, and has few dependencies.
//!
//! - `http`: the layers for axum and tower, and the client's address as a key.
//! - `sqlite`, `postgres`: the stores in SQL, and their engine.
//! - `redis`: the stores in a Redis server.

#[cfg(feature = "http")]
mod address;
pub mod bucket;
#[cfg(feature = "http")]
mod by_request;
mod denied;
mod fail_closed;
#[cfg(feature = "http")]
mod gate;
mod key;
#[cfg(feature = "http")]
mod layer;
mod limiter;
mod lock;
pub mod policy;
#[cfg(feature = "redis")]
mod redis;
mod store;

#[cfg(feature = "http")]
pub use address::{AddressKeys, NoAddress};
pub use denied::Denied;
#[cfg(feature = "http")]
pub use gate::Gate;
/// Identity, time and randomness.
pub use gatewright_base as base;
/// The database.
#[cfg(feature = "sql")]
pub use gatewright_db as db;
pub use key::Key;
#[cfg(feature = "http")]
pub use layer::LimiterLayer;
pub use limiter::{Attempt, Limiter};
pub use policy::{Policy, Verdict};
#[cfg(feature = "redis")]
pub use redis::{Redis, RedisUrlError};
#[cfg(feature = "redis")]
pub use store::RedisStore;
#[cfg(feature = "sql")]
pub use store::SqlStore;
pub use store::{Blocked, MemoryStore, Store, StoreError, StoreFuture};
