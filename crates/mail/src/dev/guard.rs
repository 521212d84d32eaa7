//! Who may read the mailbox: the developer's own browser and programs, but not the pages that the browser shows.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gatewright_http::{ClientAddr, Origin, Problem, Scheme, TrustedProxies, cross_site};
use http::header::{FORWARDED, HOST};
use http::request::Parts;
use http::uri::Authority;

/// The computers that may read the mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// This computer: the connection's peer is a loopback address, and no proxy reports that it forwards for another.
    ThisComputer,
    /// All computers. A client that reads the mailbox can sign in to every account.
    Anybody,
}

/// The inputs of the guard's decision.
#[derive(Clone)]
pub(super) struct Guarded {
    pub(super) public_url: Origin,
    pub(super) readers: Readers,
}

/// Refuses a request from another computer, a request for a host that is neither loopback nor that of the public URL, and a
/// request by another site's page.
///
/// The check of the host prevents DNS rebinding: if an attacker's domain resolves to this computer, the page's requests
/// have the attacker's host name. The last rule prevents a page from including the mailbox.
pub(super) async fn guard(State(guarded): State<Guarded>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let from_here = guarded.readers == Readers::Anybody || is_from_this_computer(&parts);
    let refused = if from_here { refusal(&parts, &guarded.public_url) } else { Some(WRONG_PEER) };
    match refused {
        Some(detail) => Problem::forbidden(detail).into_response(),
        None => next.run(Request::from_parts(parts, body)).await,
    }
}

fn refusal(parts: &Parts, public: &Origin) -> Option<&'static str> {
    let Some(authority) = authority(parts) else { return Some(WRONG_HOST) };
    let host = plain_host(authority.host());
    let is_public =
        url::Url::parse(public.as_str()).is_ok_and(|url| url.host_str().map(plain_host) == Some(host.clone()));
    if !is_public && !is_loopback(&host) {
        return Some(WRONG_HOST);
    }
    let own = format!("{}://{authority}", Scheme::of(parts).as_str()).parse().ok();
    let own: Vec<Origin> = own.into_iter().chain([public.clone()]).collect();
    cross_site::from_another_site(&parts.headers, &own).then_some("cross-site request refused")
}

/// Whether the client is on this computer, as far as the request shows. `X-Forwarded-For` can only reduce access, so it is
/// read from any client. A request without a known peer is refused.
fn is_from_this_computer(parts: &Parts) -> bool {
    let is_here = |address: Option<IpAddr>| address.is_some_and(|address| address.to_canonical().is_loopback());
    let client = ClientAddr::resolve(ClientAddr::peer(parts), &parts.headers, true, &TrustedProxies::default());
    is_here(ClientAddr::peer(parts)) && is_here(client.ip()) && !parts.headers.contains_key(FORWARDED)
}

const WRONG_PEER: &str = "the development mailbox answers to this computer only: connect from a loopback address";
const WRONG_HOST: &str = "the development mailbox answers to a loopback host or that of public_url only";

/// The host that the request names: its target's (HTTP/2), or the one `Host` header.
fn authority(parts: &Parts) -> Option<Authority> {
    let authority = match parts.uri.authority() {
        Some(authority) => authority.clone(),
        None => {
            let mut hosts = parts.headers.get_all(HOST).iter();
            let (host, None) = (hosts.next()?, hosts.next()) else { return None };
            Authority::try_from(host.as_bytes()).ok()?
        }
    };
    (!authority.as_str().contains('@')).then_some(authority)
}

/// In lower case, without the brackets of an IPv6 address or the dot of a complete name.
fn plain_host(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn is_loopback(host: &str) -> bool {
    // Browsers resolve every name under localhost themselves (RFC 6761, 6.3).
    let is_name = host == "localhost" || host.ends_with(".localhost");
    let address = host.parse::<IpAddr>().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    is_name || address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;
    use http::Request;

    use super::*;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = headers.iter().fold(Request::get(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_a_loopback_host_or_that_of_the_public_url_is_answered() {
        let public = "https://app.example.com".parse().unwrap();
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "app.localhost:3000",
            "127.0.0.1",
            "127.8.9.1:8080",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
            "app.example.com",
            "App.Example.com:8080",
        ] {
            assert_eq!(refusal(&parts("/dev/mail", &[("host", host)]), &public), None, "{host}");
        }
        for host in [
            "evil.example",
            "example.com",
            "app.example.com.evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "127.0.0.1.evil.example",
            "0.0.0.0:8080",
            "10.0.0.1",
            "[::]",
            "localhost@evil.example",
            "evil.example/localhost",
            "",
        ] {
            assert_eq!(refusal(&parts("/dev/mail", &[("host", host)]), &public), Some(WRONG_HOST), "{host}");
        }
        assert_eq!(refusal(&parts("/dev/mail", &[]), &public), Some(WRONG_HOST));
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(refusal(&parts("/dev/mail", &two), &public), Some(WRONG_HOST));
        // Over HTTP/2 the host is in the request's target, and that counts.
        let both = parts("http://evil.example/dev/mail", &[("host", "localhost")]);
        assert_eq!(refusal(&both, &public), Some(WRONG_HOST));
        assert_eq!(refusal(&parts("http://localhost/dev/mail", &[]), &public), None);
    }

    #[test]
    fn only_a_client_on_this_computer_is_answered() {
        let from = |peer: Option<&str>, forwarded: Option<(&str, &str)>| {
            let mut parts = parts("/dev/mail", forwarded.as_slice());
            let peer = peer.map(|peer| SocketAddr::new(peer.parse().unwrap(), 4711));
            if let Some(peer) = peer {
                parts.extensions.insert(ConnectInfo(peer));
            }
            is_from_this_computer(&parts)
        };
        for (peer, forwarded, expected) in [
            (Some("127.0.0.1"), None, true),
            (Some("127.9.9.9"), None, true),
            (Some("::1"), None, true),
            (Some("::ffff:127.0.0.1"), None, true),
            (Some("127.0.0.1"), Some(("x-forwarded-for", "127.0.0.1")), true),
            (Some("192.168.1.20"), None, false),
            (Some("203.0.113.7"), None, false),
            (Some("::ffff:203.0.113.7"), None, false),
            (Some("203.0.113.7"), Some(("x-forwarded-for", "127.0.0.1")), false),
            (Some("127.0.0.1"), Some(("x-forwarded-for", "203.0.113.7")), false),
            (Some("127.0.0.1"), Some(("x-forwarded-for", "127.0.0.1, 203.0.113.7")), false),
            (Some("127.0.0.1"), Some(("forwarded", "for=203.0.113.7")), false),
            (None, None, false),
            (None, Some(("x-forwarded-for", "127.0.0.1")), false),
        ] {
            assert_eq!(from(peer, forwarded), expected, "{peer:?} {forwarded:?}");
        }
    }

    #[test]
    fn another_sites_page_is_refused() {
        let public = "http://127.0.0.1:8080".parse().unwrap();
        let refused =
            |name, value| refusal(&parts("/dev/mail.json", &[("host", "localhost:8080"), (name, value)]), &public);
        for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example"), ("origin", "null")]
        {
            assert!(refused(name, value).is_some(), "{name}: {value}");
        }
        for (name, value) in [
            ("sec-fetch-site", "none"),
            ("sec-fetch-site", "same-origin"),
            ("origin", "http://localhost:8080"),
            ("origin", "http://127.0.0.1:8080"),
            ("accept", "*/*"),
        ] {
            assert!(refused(name, value).is_none(), "{name}: {value}");
        }
    }
}
