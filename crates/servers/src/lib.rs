//! Private servers for tests: a Postgres, a `PgBouncer`, a Redis or a NATS, removed when it is dropped.
//!
//! Tests that need a second engine must not depend on servers that happen to run on a machine, and tests that kill a
//! server must not kill another user's. [`PrivatePostgres::start`] and its siblings find the installed program
//! ([`find_program`]), start it on a free loopback port with its data in a temporary folder and a random password, and
//! return when it answers. Each can be killed as by a power cut and started again on the same data.
//!
//! Nothing outlives its owner: dropping stops the server and removes the folder, and a [`Watchdog`] does the same if the
//! owner itself is killed. The crate has no dependencies, so that `cargo xtask` compiles in seconds. The exception is the
//! feature `tls`: a proxy that terminates TLS in front of a server.

mod account;
mod bouncer;
mod daemon;
mod error;
mod folder;
mod nats;
mod postgres;
mod programs;
mod redis;
#[cfg(feature = "tls")]
mod tls;
mod watchdog;

pub use bouncer::PrivateBouncer;
pub use error::Error;
pub use folder::Folder;
pub use nats::PrivateNats;
pub use postgres::PrivatePostgres;
pub use programs::{find_program, is_superuser};
pub use redis::PrivateRedis;
#[cfg(feature = "tls")]
pub use tls::{Opening, TlsProxy};
pub use watchdog::{Watchdog, signal};
