//! Fan-out of events across replicas: every write is published on the buses of all replicas.
//!
//! By default a [`Bus`](crate::Bus) is local to one process. [`attach`] connects it to a channel that all replicas
//! share: [`PostgresFanout`] (notifications),
#![cfg_attr(feature = "redis", doc = "[`RedisFanout`] (publish and subscribe),")]
#![cfg_attr(feature = "nats", doc = "[`NatsFanout`],")]
//! or the program's own [`Fanout`]. Writes of this process are sent, in batches under load. Writes of other replicas
//! are received and published once, flagged as [remote](crate::EntityEvent::is_remote).
//!
//! ```no_run
//! # fn example(db: gatewright_db::Db, bus: &gatewright_events::Bus) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use gatewright_base::Ambient;
//! use gatewright_events::fanout::{FanoutOptions, PostgresFanout, attach};
//!
//! let ambient = Ambient::system();
//! let backend = Arc::new(PostgresFanout::new(db, &ambient)?);
//! let attached = attach(bus, backend, ambient, FanoutOptions::default());
//! # let _ = attached; Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! Delivery is fast and lossy. While the backend is unavailable, events wait in a limited queue; when it is full, the
//! oldest are dropped and counted. Events that other replicas send in that time are missed, and counted if possible. A
//! batch that may not have arrived is sent again, and receivers ignore duplicates. The backend is trusted: any client
//! that can write to it can publish any event. A malformed message is counted, logged and dropped.
//!
//! # File by file
//!
//! `outbound` drains the bus into the backend and `inbound` does the reverse, each with retries after growing pauses. A
//! probe is sent every few seconds, to distinguish a dead channel from an idle one. `postgres`, `redis` and `nats` are
//! the backends.

mod attached;
mod error;
mod inbound;
#[cfg(feature = "nats")]
mod nats;
mod options;
mod outbound;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod shared;

use async_trait::async_trait;
use bytes::Bytes;

pub use attached::{Attached, FanoutStatus, attach};
pub use error::{ChannelError, FanoutError};
#[cfg(feature = "nats")]
pub use nats::NatsFanout;
pub use options::FanoutOptions;
#[cfg(feature = "postgres")]
pub use postgres::PostgresFanout;
#[cfg(feature = "redis")]
pub use redis::RedisFanout;
pub use shared::FanoutCounts;

/// A channel between replicas.
///
/// Each listener gets every message of every sender, including those of its own process. The messages of one sender
/// arrive in order.
#[async_trait]
pub trait Fanout: Send + Sync + 'static {
    /// Its name in the log: `redis`.
    fn name(&self) -> &'static str;

    /// Sends `messages` in order, and returns how many were skipped because the backend cannot send them: too large, or
    /// not text. May be called again with the same messages after an error.
    async fn send(&self, messages: &[Bytes]) -> Result<usize, FanoutError>;

    /// Begins to listen. Messages that are sent after this has returned are received.
    async fn listen(&self) -> Result<Box<dyn Receiver>, FanoutError>;

    /// Removes data that is no longer needed. Called periodically.
    async fn sweep(&self) -> Result<(), FanoutError> {
        Ok(())
    }
}

/// The listening end of a [`Fanout`].
#[async_trait]
pub trait Receiver: Send {
    /// The next message. After an error, do not use this receiver again. Safe to cancel.
    async fn next(&mut self) -> Result<Received, FanoutError>;
}

/// A result of a [`Receiver`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message, unchanged.
    Message(Bytes),
    /// Something that is not a message of this service.
    Noise,
    /// A message of this process that the backend recognises without parsing it.
    Own,
}

/// The channel that a URL's parameter `channel` names, removed from the URL; or the default channel.
fn take_channel(url: &mut url::Url) -> Result<String, ChannelError> {
    let (named, rest): (Vec<_>, Vec<_>) =
        url.query_pairs().into_owned().partition(|(parameter, _)| parameter == "channel");
    url.set_query(None);
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    let channel = named.into_iter().next_back().map_or_else(|| CHANNEL.to_owned(), |(_, channel)| channel);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=LONGEST_CHANNEL).contains(&channel.len()) && channel.bytes().all(plain) {
        return Ok(channel);
    }
    Err(ChannelError::Name)
}

const CHANNEL: &str = "gatewright_events";
/// Postgres' names have at most 63 bytes.
const LONGEST_CHANNEL: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_taken_out_of_the_url_and_must_have_a_plain_name() {
        for (url, channel, rest) in [
            ("redis://h/1", Some(CHANNEL), "redis://h/1"),
            ("redis://h/1?channel=shop", Some("shop"), "redis://h/1"),
            ("redis://h?sslrootcert=a%20b&channel=shop-2", Some("shop-2"), "redis://h?sslrootcert=a+b"),
            ("nats://h?channel=", None, "nats://h"),
            ("nats://h?channel=a.*", None, "nats://h"),
            ("nats://h?channel=%3E", None, "nats://h"),
            ("nats://h?channel=a%20b", None, "nats://h"),
        ] {
            let mut parsed = url::Url::parse(url).unwrap();
            assert_eq!(take_channel(&mut parsed).ok().as_deref(), channel, "{url}");
            assert_eq!(parsed.as_str(), rest);
        }
    }
}
