//! Creates a client from the URL of a Redis server, the same for all crates that use one.
//!
//! Certificates are always checked: against the authorities that the system trusts, or against those of a PEM file. No
//! error repeats the URL, which may contain a password.

use std::fmt;

use gatewright_base::Secret;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, TlsCertificates};
use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// Why a URL leads to no Redis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisUrlError {
    /// It is not a URL of a Redis server.
    #[error("not a Redis URL, which reads redis://[user:password@]host[:port][/database], or rediss:// for TLS: {0}")]
    Url(String),
    /// The file that `sslrootcert` names.
    #[error("cannot use the certificates in {path}: {reason}")]
    Certificates {
        /// The file.
        path: String,
        /// The error in it.
        reason: String,
    },
}

/// A client for the server at `url`: `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS, where the
/// server's certificate must be issued by an authority that the system trusts, or by one in the PEM file that the query
/// parameter `sslrootcert` names. Nothing is sent yet.
pub fn client(url: &Secret) -> Result<Client, RedisUrlError> {
    let refuse = |reason: &dyn fmt::Display| RedisUrlError::Url(reason.to_string());
    let mut url = url::Url::parse(url.expose()).map_err(|error| refuse(&error))?;
    let roots = take_roots(&mut url)?;
    if url.fragment().is_some() {
        return Err(refuse(&"certificates are always checked, and nothing else can be said after a #"));
    }
    let info = url.as_str().into_connection_info().map_err(|error| refuse(&error))?;
    let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    if encrypted && CryptoProvider::get_default().is_none() {
        // A program whose dependencies include two providers must select one, or the first connection would panic.
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

/// Removes `sslrootcert` from the URL, whose other parameters belong to the driver, and reads the file.
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

    fn open(url: &str) -> Result<Client, RedisUrlError> {
        client(&Secret::new(url))
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
    fn no_error_shows_the_password() {
        for url in ["redis://:canary@host/x", "redis://:canary@", "rediss://:canary@h/#insecure", "x://:canary@h"] {
            let error = open(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
    }
}
