//! A Redis server that the stores of this crate share.
//!
//! Every decision is one script and one round trip: the script reads the server's clock and the key's state, decides by
//! the same rule as the other stores, and writes the state with an expiry, so that Redis never keeps a key that means
//! nothing any more. Scripts run one at a time in the server, which makes them exact across replicas.
//!
//! Needs Redis 5 or newer (or a server that speaks its protocol), as one primary or behind one address. Give it a server
//! or database whose `maxmemory-policy` is `noeviction`: one that evicts forgets blocks.

mod link;

use std::fmt;
use std::sync::Arc;

use ::redis::{Client, ConnectionAddr, FromRedisValue, IntoConnectionInfo, Script, TlsCertificates};
use gatewright_base::Secret;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

use self::link::{Link, Request};
use crate::{Key, StoreError};

/// One server, reached over one connection that is made on first use and again after it was lost. Cheap to clone;
/// clones share the connection.
#[derive(Clone)]
pub struct Redis {
    link: Arc<Link>,
    prefix: Arc<str>,
}

/// Why a URL leads to no Redis.
#[derive(Debug, thiserror::Error)]
pub enum RedisUrlError {
    /// It is not a URL of a Redis server.
    #[error("not a Redis URL, which reads redis://[user:password@]host[:port][/database], or rediss:// for TLS: {0}")]
    Url(String),
    /// The file that `sslrootcert` names.
    #[error("cannot use the certificates in {path}: {reason}")]
    Certificates {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Redis {
    /// What keys begin with unless told otherwise.
    pub const PREFIX: &'static str = "gatewright:";

    /// The server at `url`: `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS, where the server's
    /// certificate must be issued by an authority that the system trusts, or by one in the PEM file that the query
    /// parameter `sslrootcert` names.
    ///
    /// Nothing is sent yet; [`Redis::check`] tells whether the server answers.
    pub fn open(url: &Secret) -> Result<Self, RedisUrlError> {
        let client = client(url.expose())?;
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

fn client(url: &str) -> Result<Client, RedisUrlError> {
    let refuse = |reason: &dyn fmt::Display| RedisUrlError::Url(reason.to_string());
    let mut url = url::Url::parse(url).map_err(|error| refuse(&error))?;
    let roots = take_roots(&mut url)?;
    if url.fragment().is_some() {
        return Err(refuse(&"certificates are always checked, and nothing else can be said after a #"));
    }
    let info = url.as_str().into_connection_info().map_err(|error| refuse(&error))?;
    let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    if encrypted && CryptoProvider::get_default().is_none() {
        // A program whose dependencies bring two providers must name one, or the first connection would panic.
        let _another_thread_was_first = aws_lc_rs::default_provider().install_default();
    }
    let Some((path, pem)) = roots else { return Client::open(info).map_err(|error| refuse(&error)) };
    if !encrypted {
        return Err(refuse(&"sslrootcert is for rediss://"));
    }
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem) };
    Client::build_with_tls(info, certificates)
        .map_err(|error| RedisUrlError::Certificates { path, reason: error.to_string() })
}

/// Takes `sslrootcert` out of the URL, whose other parameters are the driver's, and reads the file.
fn take_roots(url: &mut url::Url) -> Result<Option<(String, Vec<u8>)>, RedisUrlError> {
    let (roots, rest): (Vec<_>, Vec<_>) =
        url.query_pairs().into_owned().partition(|(parameter, _)| parameter == "sslrootcert");
    let Some((_, path)) = roots.into_iter().next_back() else { return Ok(None) };
    url.set_query(None);
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    match std::fs::read(&path) {
        Ok(pem) if pem.windows(PEM.len()).any(|bytes| bytes == PEM) => Ok(Some((path, pem))),
        Ok(_) => Err(RedisUrlError::Certificates { path, reason: "no certificate in it".to_owned() }),
        Err(error) => Err(RedisUrlError::Certificates { path, reason: error.to_string() }),
    }
}

const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<Redis, RedisUrlError> {
        Redis::open(&Secret::new(url))
    }

    #[test]
    fn urls_are_read_before_anything_is_sent() {
        for url in ["redis://127.0.0.1", "redis://:secret@host:6380/3", "rediss://user:secret@host/0"] {
            assert!(open(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "host:6379",
            "http://host",
            "redis://",
            "redis://host/no-number",
            "rediss://host/#insecure",
            "redis://host?sslrootcert=/no/such/file",
            "rediss://host?sslrootcert=/no/such/file",
        ] {
            assert!(open(url).is_err(), "{url}");
        }
    }

    #[test]
    fn nothing_shows_the_password() {
        let redis = open("redis://canary-user:canary-password@host.example:6380/3").unwrap();
        let shown = format!("{redis:?}");
        assert!(shown.contains("host.example:6380") && !shown.contains("canary"), "{shown}");
        for url in ["redis://:canary@host/x", "redis://:canary@", "rediss://:canary@h/#insecure", "x://:canary@h"] {
            let error = open(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
    }
}
