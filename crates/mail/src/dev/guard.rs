//! Who may read the mailbox: the developer's own browser and programs, not the pages that the browser shows.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gatewright_http::{Origin, Problem, Scheme, cross_site};
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

/// Refuses a request that names a host which is neither loopback nor that of the public URL, and one that another
/// site's page makes.
///
/// The first ends DNS rebinding: a page whose own name was made to point here has the rights of that name, but cannot
/// help telling it. The second keeps a page from including the mailbox in itself.
pub(super) async fn guard(State(public): State<Origin>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match refusal(&parts, &public) {
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
