//! The client address of a request, and the key that it counts against.
//!
//! Only the peer address of the TCP connection cannot be forged. Behind proxies it is that of the proxy, so
//! `X-Forwarded-For` must be read, and everything to the left of the entry of a trusted hop is untrusted.
//! [`resolve`](ClientAddr::resolve) does this.

mod networks;
mod proxies;

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use http::request::Parts;
use http::{Extensions, HeaderMap};

pub use networks::{Counted, Network, Networks, Share};
pub use proxies::{InvalidNetwork, Reach, TrustedProxies, UNIX_PEER};

/// The address of the client, if it is known (a request over a Unix socket or made in process has none).
///
/// As an extractor it trusts `X-Forwarded-For` only if [`TrustedProxies`] in the request's extensions name the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddr(Option<IpAddr>);

impl ClientAddr {
    /// A client at `address`. IPv4 written as IPv6 (`::ffff:192.0.2.1`) becomes IPv4.
    pub fn new(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| address.to_canonical()))
    }

    /// The client of the request with these parts; see [`ClientAddr::resolve`]. Peer and proxies come from the
    /// request's extensions (`ConnectInfo<SocketAddr>`, [`TrustedProxies`]).
    pub fn of(parts: &Parts, trust_forwarded_for: bool) -> Self {
        let none = TrustedProxies::default();
        let proxies = parts.extensions.get::<TrustedProxies>().unwrap_or(&none);
        Self::resolve(Self::peer(parts), &parts.headers, trust_forwarded_for, proxies)
    }

    /// The client of a request, as far as these proxies vouch for it.
    pub fn of_request<B>(request: &http::Request<B>, proxies: &TrustedProxies) -> Self {
        let peer = Self::peer_in(request.extensions());
        Self::resolve(peer, request.headers(), !proxies.is_empty(), proxies)
    }

    /// The other end of the connection: `ConnectInfo<SocketAddr>` of the request's extensions.
    pub fn peer(parts: &Parts) -> Option<IpAddr> {
        Self::peer_in(&parts.extensions)
    }

    /// The other end of the connection, from the extensions of a request.
    pub(crate) fn peer_in(extensions: &Extensions) -> Option<IpAddr> {
        extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip())
    }

    /// Chooses between the peer and the addresses in `X-Forwarded-For`.
    ///
    /// - Without `trust`: the peer.
    /// - With `trust` and no proxies named: the rightmost address, which the nearest proxy wrote.
    /// - With `trust` and proxies named: the peer if it is not one of them; else, from the right, the first address
    ///   that is none of them. If all are, the leftmost.
    /// - If the header does not have an address where one is needed: the peer.
    pub fn resolve(peer: Option<IpAddr>, headers: &HeaderMap, trust: bool, proxies: &TrustedProxies) -> Self {
        let from_proxy = proxies.is_empty() || peer.is_some_and(|peer| proxies.contains(peer));
        if !trust || !from_proxy {
            return Self::new(peer);
        }
        let mut client = None;
        for value in headers.get_all("x-forwarded-for").iter().rev() {
            for hop in value.as_bytes().rsplit(|byte| *byte == b',') {
                let Some(address) = parse_hop(hop) else {
                    return Self::new(peer);
                };
                if !proxies.contains(address) {
                    return Self::new(Some(address));
                }
                client = Some(address);
            }
        }
        Self::new(client.or(peer))
    }

    /// The address.
    pub fn ip(self) -> Option<IpAddr> {
        self.0
    }

    /// Whether the client has its own share of common resources. Loopback addresses, which may be an undeclared proxy,
    /// and clients without an address have none.
    pub fn has_share(self) -> bool {
        self.0.is_some_and(|address| !address.is_loopback())
    }
}

impl fmt::Display for ClientAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("unknown"),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for ClientAddr {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let named = parts.extensions.get::<TrustedProxies>().is_some_and(|proxies| !proxies.is_empty());
        Ok(Self::of(parts, named))
    }
}

/// One entry of `X-Forwarded-For`: an address, which some proxies write with a port, in brackets or in quotes.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop.trim_ascii()).ok()?;
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => text.parse::<SocketAddr>().ok()?.ip(),
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn client(peer: &str, forwarded: &[&[u8]], trust: bool, proxies: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(value).unwrap());
        }
        let proxies = TrustedProxies::parse(proxies).unwrap();
        ClientAddr::resolve(peer.parse().ok(), &headers, trust, &proxies).to_string()
    }

    #[test]
    fn a_header_counts_only_as_far_as_it_is_trusted() {
        const PEER: &str = "10.0.0.1";
        const OUR: &[&str] = &["10.0.0.0/8", "2001:db8:f::/48"];
        type Case = (&'static str, &'static [&'static [u8]], bool, &'static [&'static str], &'static str);
        let cases: &[Case] = &[
            // Not trusted: the peer address is used, and the header is ignored.
            (PEER, &[b"203.0.113.7"], false, &[], PEER),
            (PEER, &[b"203.0.113.7"], false, OUR, PEER),
            // Trusted, no proxies named: the rightmost.
            (PEER, &[], true, &[], PEER),
            (PEER, &[b"203.0.113.7"], true, &[], "203.0.113.7"),
            (PEER, &[b"1.1.1.1, 203.0.113.7"], true, &[], "203.0.113.7"),
            (PEER, &[b"1.1.1.1", b"203.0.113.7"], true, &[], "203.0.113.7"),
            // Trusted, proxies named: from the right, past our own.
            (PEER, &[b"203.0.113.7"], true, OUR, "203.0.113.7"),
            (PEER, &[b"1.1.1.1, 203.0.113.7, 10.2.2.2"], true, OUR, "203.0.113.7"),
            (PEER, &[b"1.1.1.1,203.0.113.7", b"10.2.2.2,10.3.3.3"], true, OUR, "203.0.113.7"),
            (PEER, &[b"203.0.113.7, 2001:db8:f::9"], true, OUR, "203.0.113.7"),
            (PEER, &[b"203.0.113.7, ::ffff:10.2.2.2"], true, OUR, "203.0.113.7"),
            (PEER, &[b"10.9.9.9, 10.2.2.2"], true, OUR, "10.9.9.9"),
            // The peer is not one of our proxies: a client that forges.
            ("198.51.100.4", &[b"203.0.113.7"], true, OUR, "198.51.100.4"),
            ("", &[b"203.0.113.7"], true, OUR, "unknown"),
            ("", &[b"203.0.113.7"], true, &[], "203.0.113.7"),
            // Malformed where an address is needed: the peer.
            (PEER, &[b"nonsense"], true, &[], PEER),
            (PEER, &[b"203.0.113.7, nonsense"], true, &[], PEER),
            (PEER, &[b"203.0.113.7,"], true, &[], PEER),
            (PEER, &[b"unknown"], true, OUR, PEER),
            (PEER, &[b"203.0.113.7, \xff\xfe"], true, OUR, PEER),
            (PEER, &[b"nonsense, 10.2.2.2"], true, OUR, PEER),
            (PEER, &[b""], true, OUR, PEER),
            (PEER, &[b"nonsense, 203.0.113.7"], true, OUR, "203.0.113.7"),
            // The forms that proxies write.
            (PEER, &[b"203.0.113.7:4711"], true, &[], "203.0.113.7"),
            (PEER, &[b"[2001:db8::7]:4711"], true, &[], "2001:db8::7"),
            (PEER, &[b"[2001:db8::7]"], true, &[], "2001:db8::7"),
            (PEER, &[b"\"[2001:db8::7]:4711\""], true, &[], "2001:db8::7"),
            (PEER, &[b" \t203.0.113.7 "], true, &[], "203.0.113.7"),
            ("::ffff:203.0.113.7", &[], false, &[], "203.0.113.7"),
        ];
        for (peer, forwarded, trust, proxies, expected) in cases {
            let shown: Vec<_> = forwarded.iter().map(|value| String::from_utf8_lossy(value)).collect();
            assert_eq!(client(peer, forwarded, *trust, proxies), *expected, "{peer} {shown:?} {trust} {proxies:?}");
        }
    }

    #[test]
    fn a_header_of_many_thousand_hops_is_read_from_the_right() {
        let long = "10.0.0.2,".repeat(20_000) + "203.0.113.7";
        assert_eq!(client("10.0.0.1", &[long.as_bytes()], true, &["10.0.0.0/8"]), "203.0.113.7");
    }
}
