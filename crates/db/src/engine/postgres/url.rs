//! The URL of a Postgres server, and whether connections to it are encrypted.

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::OpenError;

/// A URL that was read.
pub(super) struct Parsed {
    pub(super) config: Config,
    pub(super) protection: Protection,
    /// The file with the certificate authority.
    pub(super) root: Option<String>,
    reach: Reach,
}

/// How connections are protected on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// Not at all.
    Plain,
    /// Encrypted if the server offers TLS, whatever its certificate.
    Offered,
    /// Encrypted, and the server's certificate is verified, for the host's name too. Otherwise there is no connection.
    Verified,
}

/// The farthest host of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// A Unix socket, over which Postgres has no TLS.
    Socket,
    /// This computer itself.
    Loopback,
    Network,
}

/// Reads a URL. No error contains a part of it: text that looks like a port, a database or a parameter may be part of a
/// password.
pub(super) fn parse(url: &str) -> Result<Parsed, OpenError> {
    if is_cut_short(url) {
        return Err(unreadable("its password seems to end early"));
    }
    let (url, mode, root) = split_tls(url)?;
    let mut config: Config =
        url.parse().map_err(|_: tokio_postgres::Error| unreadable("a part of it or a parameter is not known"))?;
    // An address without a name: its certificate is verified for the address.
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
    let reach = reach(&config);
    let protection = protection(mode.as_deref(), root.is_some(), reach)?;
    Ok(Parsed { config, protection, root, reach })
}

impl Parsed {
    /// Whether other computers may read what is sent.
    pub(super) fn is_exposed(&self) -> bool {
        self.reach == Reach::Network && self.protection != Protection::Verified
    }
}

/// The protection that `sslmode` selects. Without it, TLS is used where the server offers it, and required for a server
/// on another computer. Less than that must be named.
fn protection(mode: Option<&str>, has_root: bool, reach: Reach) -> Result<Protection, OpenError> {
    match mode {
        Some(mode @ ("disable" | "prefer")) if has_root => Err(OpenError::Url(format!(
            "sslrootcert has no effect with sslmode={mode}; remove sslmode, so that the certificate is verified"
        ))),
        Some("disable") => Ok(Protection::Plain),
        None if has_root || reach == Reach::Network => Ok(Protection::Verified),
        None | Some("prefer") if reach == Reach::Socket => Ok(Protection::Plain),
        None | Some("prefer") => Ok(Protection::Offered),
        Some("require" | "verify-ca" | "verify-full") => Ok(Protection::Verified),
        Some(_) => {
            Err(OpenError::Url("its sslmode is not supported; use disable, prefer, require or verify-full".to_owned()))
        }
    }
}

/// The farthest of the hosts. `hostaddr` is where a connection goes, if it is given; the name of `host` then counts for
/// nothing.
fn reach(config: &Config) -> Reach {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        let is_local = addresses.iter().all(std::net::IpAddr::is_loopback);
        return if is_local { Reach::Loopback } else { Reach::Network };
    }
    let of = |host: &Host| match host {
        Host::Tcp(name) => {
            let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
            let is_local = name == "localhost" || address.is_ok_and(|ip| ip.is_loopback());
            if is_local { Reach::Loopback } else { Reach::Network }
        }
        Host::Unix(_) => Reach::Socket,
    };
    config.get_hosts().iter().map(of).max().unwrap_or(Reach::Network)
}

fn unreadable(reason: &str) -> OpenError {
    OpenError::Url(format!(
        "{reason}; percent-encode special characters in the password (%40 for @, %2F for /, %23 for #)"
    ))
}

/// Whether the URL seems to contain a password with an unescaped reserved character. A slash, a question mark or a number
/// sign ends the host's part, and leaves the `@` in the text after it.
fn is_cut_short(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = before.split_once('/').map_or("", |(_, path)| path);
    let stray =
        |parameter: &str| !parameter.contains('=') || parameter.split('=').next().is_some_and(|key| key.contains('@'));
    fragment.is_some() || path.contains('@') || query.split('&').filter(|text| !text.is_empty()).any(stray)
}

/// Removes `sslmode` and `sslrootcert` from the URL: the driver supports fewer modes.
fn split_tls(url: &str) -> Result<(String, Option<String>, Option<String>), OpenError> {
    let mut parsed = url::Url::parse(url).map_err(|error| unreadable(&error.to_string()))?;
    let (mut mode, mut root, mut rest) = (None, None, Vec::new());
    for (key, value) in parsed.query_pairs() {
        match &*key {
            "sslmode" => mode = Some(value.into_owned()),
            "sslrootcert" => root = Some(value.into_owned()),
            _ => rest.push((key.into_owned(), value.into_owned())),
        }
    }
    parsed.set_query(None);
    if !rest.is_empty() {
        parsed.query_pairs_mut().extend_pairs(rest);
    }
    Ok((parsed.to_string(), mode, root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_not_encoded_is_refused_and_no_part_of_it_is_shown() {
        for url in [
            "postgres://ada:canary/7@db.example/app",
            "postgres://ada:7/canary@db.example/app",
            "postgres://ada:7#canary@db.example/app",
            "postgres://ada:canary#7@db.example/app",
            "postgres://ada:7?canary@db.example/app",
            "postgres://ada:7?x=1&canary@db.example/app",
            "postgres://ada:canary@7/x@db.example/app",
            "postgres://ada:7@canary/x@db.example/app",
            "postgres://ada:7?canary=1@db.example/app",
            "postgres://ada:x@db.example:canary/app",
        ] {
            let Err(error) = parse(url) else { panic!("{url} was read") };
            let text = error.to_string();
            assert!(!text.contains("canary"), "{text}");
            assert!(text.contains("percent-encode"), "{text}");
        }
    }

    #[test]
    fn sound_urls_are_read() {
        for url in [
            "postgres://ada:p%40ss%2Fw%23rd@db.example:5433/app?sslmode=require&application_name=a%40b",
            "postgres://ada:p@ss@db.example/app",
            "postgresql://%2Fvar%2Frun%2Fpostgresql/app?user=ada&password=x",
            "postgres://127.0.0.1/app?application_name=a@b",
            "postgres:///app?host=/run/postgresql&user=a@b",
        ] {
            assert!(parse(url).is_ok(), "{url}: {:?}", parse(url).err());
        }
    }

    /// The rule, for every mode, with and without an authority, at every reach.
    #[test]
    fn plain_text_over_a_network_must_be_named() {
        use Protection::{Offered, Plain, Verified};
        let cases = [
            // Mode, authority; a socket, loopback, a network.
            (None, false, [Some(Plain), Some(Offered), Some(Verified)]),
            (None, true, [Some(Verified); 3]),
            (Some("disable"), false, [Some(Plain); 3]),
            (Some("disable"), true, [None; 3]),
            (Some("prefer"), false, [Some(Plain), Some(Offered), Some(Offered)]),
            (Some("prefer"), true, [None; 3]),
            (Some("require"), false, [Some(Verified); 3]),
            (Some("require"), true, [Some(Verified); 3]),
            (Some("verify-ca"), false, [Some(Verified); 3]),
            (Some("verify-ca"), true, [Some(Verified); 3]),
            (Some("verify-full"), false, [Some(Verified); 3]),
            (Some("verify-full"), true, [Some(Verified); 3]),
            (Some("allow"), false, [None; 3]),
            (Some("allow"), true, [None; 3]),
            (Some("Disable"), false, [None; 3]),
            (Some(""), false, [None; 3]),
        ];
        for (mode, has_root, expected) in cases {
            for (reach, expected) in [Reach::Socket, Reach::Loopback, Reach::Network].into_iter().zip(expected) {
                assert_eq!(protection(mode, has_root, reach).ok(), expected, "{mode:?}, {has_root}, {reach:?}");
            }
        }
    }

    #[test]
    fn a_host_is_of_this_computer_only_if_every_connection_stays_on_it() {
        for (url, expected) in [
            ("postgres:///app?host=/run/postgresql", Reach::Socket),
            ("postgres://%2Frun%2Fpostgresql/app", Reach::Socket),
            ("postgres://localhost/app", Reach::Loopback),
            ("postgres://127.0.0.1/app", Reach::Loopback),
            ("postgres://127.8.9.10/app", Reach::Loopback),
            ("postgres://[::1]/app", Reach::Loopback),
            ("postgres://localhost/app?hostaddr=127.0.0.1", Reach::Loopback),
            ("postgres:///app?hostaddr=127.0.0.1&user=a", Reach::Loopback),
            ("postgres://db.example/app", Reach::Network),
            ("postgres://10.0.0.1/app", Reach::Network),
            ("postgres://localhost.example/app", Reach::Network),
            ("postgres://[fe80::1]/app", Reach::Network),
            ("postgres://localhost/app?hostaddr=10.0.0.1", Reach::Network),
            ("postgres:///app?hostaddr=10.0.0.1&user=a", Reach::Network),
            ("postgres://localhost/app?host=10.0.0.1", Reach::Network),
        ] {
            let parsed = parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(parsed.reach, expected, "{url}");
            assert!(!parsed.is_exposed(), "{url}");
        }
        for (url, expected) in [
            ("postgres://db.example/app?sslmode=disable", true),
            ("postgres://db.example/app?sslmode=prefer", true),
            ("postgres://db.example/app?sslmode=require", false),
            ("postgres://localhost/app?sslmode=disable", false),
            ("postgres://localhost/app?sslmode=disable&hostaddr=10.0.0.1", true),
        ] {
            assert_eq!(parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).is_exposed(), expected, "{url}");
        }
    }
}
