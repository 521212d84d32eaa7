//! Events across replicas: every write is told on the buses of all.
//!
//! By default a [`Bus`](crate::Bus) is one process's. [`attach`] ties it to a channel that all replicas share: [`PostgresFanout`]
//! (notifications),
#![cfg_attr(feature = "redis", doc = "[`RedisFanout`] (publish and subscribe),")]
#![cfg_attr(feature = "nats", doc = "[`NatsFanout`],")]
//! or a [`Fanout`] of the program's own. What is written here goes out, in batches under load; what other replicas wrote
//! comes in and is published once, flagged as [remote](crate::EntityEvent::is_remote).
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
//! # What it promises
//!
//! The live lane stays what it is, quick and lossy. While the backend is away events wait in a bounded queue, whose
//! oldest are dropped and counted; what others send meanwhile is missed, and counted where it can be. A batch whose
//! arrival is in doubt is sent again, and its repetition left out by those who had it. The backend is trusted: whoever can
//! write to it can publish any event. A message that is none is counted, logged and dropped.
//!
//! # File by file
//!
//! `outbound` drains the bus into the backend and `inbound` does the reverse, each trying again with growing pauses. A
//! probe goes round every few seconds, so that a channel which has fallen silent is told from one that has nothing to
//! say. `postgres`, `redis` and `nats` are the backends.

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
/// Whoever listens gets every message that anybody sends, those of its own process included, and those of one sender in
/// their order.
#[async_trait]
pub trait Fanout: Send + Sync + 'static {
    /// Its name in the log: `redis`.
    fn name(&self) -> &'static str;

    /// Sends `messages` in their order, and returns how many were left out because the backend never takes the like of
    /// them: too large, or no text. May be called again with the same messages after an error.
    async fn send(&self, messages: &[Bytes]) -> Result<usize, FanoutError>;

    /// Begins to listen: what is sent after this has returned is heard.
    async fn listen(&self) -> Result<Box<dyn Receiver>, FanoutError>;

    /// Removes what nobody will ask for any more. Called once in a while.
    async fn sweep(&self) -> Result<(), FanoutError> {
        Ok(())
    }
}

/// The listening end of a [`Fanout`].
#[async_trait]
pub trait Receiver: Send {
    /// The next message. After an error this end is of no more use. Safe to cancel.
    async fn next(&mut self) -> Result<Received, FanoutError>;
}

/// What a [`Receiver`] received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message, as somebody sent it.
    Message(Bytes),
    /// Something that is no message of ours.
    Noise,
    /// A message of this process that the backend knows without reading it.
    Own,
}

/// The channel that a URL's parameter `channel` names, taken out of the URL; or the one that all use.
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
