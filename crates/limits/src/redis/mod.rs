//! A Redis server that the stores of this crate share.
//!
//! Every decision is one script and one round trip: the script reads the server's clock and the key's state, decides by
//! the same rule as the other stores, and writes the state with an expiry, so that Redis never keeps a key without
//! effect. Scripts run one at a time in the server, which makes them exact across replicas.
//!
//! Needs Redis 5 or newer (or a compatible server), as one primary or behind one address. Use a server or database whose
//! `maxmemory-policy` is `noeviction`: an eviction would lose blocks.

mod link;

use std::fmt;
use std::sync::Arc;

use ::redis::{FromRedisValue, Script};
use gatewright_base::Secret;
pub use gatewright_redis::RedisUrlError;

use self::link::{Link, Request};
use crate::{Key, StoreError};

/// One server, reached over one connection that is made on first use and again after it was lost. Cheap to clone;
/// clones share the connection.
#[derive(Clone)]
pub struct Redis {
    link: Arc<Link>,
    prefix: Arc<str>,
}

impl Redis {
    /// The default prefix of keys.
    pub const PREFIX: &'static str = "gatewright:";

    /// The server at `url`: `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS, where the server's
    /// certificate must be issued by an authority that the system trusts, or by one in the PEM file that the query
    /// parameter `sslrootcert` names.
    ///
    /// Nothing is sent yet; [`Redis::check`] returns whether the server answers.
    pub fn open(url: &Secret) -> Result<Self, RedisUrlError> {
        let client = gatewright_redis::client(url)?;
        Ok(Self { link: Arc::new(Link::new(client)), prefix: Self::PREFIX.into() })
    }

    /// Begins all keys with `prefix`, for programs that share a server and must not share their limits.
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// `Ok` if the server can be reached and takes the URL's credentials.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.link.run(Request::Command(::redis::cmd("PING"))).await
    }

    /// The name of a key's state of one `kind`.
    pub(crate) fn name(&self, kind: &str, key: &Key) -> String {
        [&self.prefix, kind, ":", key.as_str()].concat()
    }

    /// Runs `script` on the state `name`. The server keeps scripts; one that it lost is sent again.
    pub(crate) async fn decide<T: FromRedisValue>(
        &self,
        script: &Script,
        name: &str,
        arguments: &[i64],
    ) -> Result<T, StoreError> {
        let mut invocation = script.key(name);
        invocation.arg(arguments);
        self.link.run(Request::Script(invocation)).await
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let mut command = ::redis::cmd("DEL");
        command.arg(name);
        self.link.run(Request::Command(command)).await
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("server", &self.link.location()).field("prefix", &self.prefix).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_the_password() {
        let redis = Redis::open(&Secret::new("redis://canary-user:canary-password@host.example:6380/3")).unwrap();
        let shown = format!("{redis:?}");
        assert!(shown.contains("host.example:6380") && !shown.contains("canary"), "{shown}");
    }
}
