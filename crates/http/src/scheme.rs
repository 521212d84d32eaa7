use http::request::Parts;
use http::uri;

use crate::{ClientAddr, TrustedProxies};

/// Whether the browser's side of the connection is encrypted.
///
/// It decides between `__Host-` cookies and plain ones, and is half of the request's own origin. A host that
/// terminates TLS itself puts `Scheme::Https` into the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain.
    Http,
    /// Encrypted.
    Https,
}

impl Scheme {
    /// The scheme of the request with these parts: the extension if there is one, the request target's scheme, or a
    /// proxy's `X-Forwarded-Proto`.
    ///
    /// With [`TrustedProxies`] in the extensions, the header is trusted only from them. Without any, it is trusted from
    /// every client: a page cannot make a browser send it to another site, so a client can only change its own cookies.
    /// Of several values one `https` is enough, because a wrong `https` only loses a cookie, while a wrong `http`
    /// exposes it.
    pub fn of(parts: &Parts) -> Self {
        if let Some(scheme) = parts.extensions.get::<Self>() {
            return *scheme;
        }
        let encrypted =
            parts.uri.scheme() == Some(&uri::Scheme::HTTPS) || (proxy_is_believed(parts) && forwarded(parts));
        if encrypted { Self::Https } else { Self::Http }
    }

    /// `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Whether it is encrypted.
    pub fn is_https(self) -> bool {
        self == Self::Https
    }
}

fn proxy_is_believed(parts: &Parts) -> bool {
    match parts.extensions.get::<TrustedProxies>() {
        None => true,
        Some(proxies) if proxies.is_empty() => true,
        Some(proxies) => ClientAddr::peer(parts).is_some_and(|peer| proxies.contains(peer)),
    }
}

fn forwarded(parts: &Parts) -> bool {
    let values = parts.headers.get_all("x-forwarded-proto");
    values.iter().any(|value| {
        value.as_bytes().split(|byte| *byte == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(b"https"))
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;
    use http::Request;

    use super::*;

    fn parts(uri: &str, forwarded: &[&str], peer: &str, proxies: &[&str]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for value in forwarded {
            request = request.header("x-forwarded-proto", *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        parts.extensions.insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
        parts.extensions.insert(TrustedProxies::parse(proxies).unwrap());
        parts
    }

    #[test]
    fn the_scheme_is_https_if_a_trusted_header_says_so() {
        let peer = "10.0.0.1:9";
        let cases: [(Parts, Scheme); 8] = [
            (parts("/", &[], peer, &[]), Scheme::Http),
            (parts("/", &["https"], peer, &[]), Scheme::Https),
            (parts("/", &["HTTPS"], peer, &[]), Scheme::Https),
            (parts("/", &["http"], peer, &[]), Scheme::Http),
            (parts("/", &["https, http"], peer, &["10.0.0.0/8"]), Scheme::Https),
            (parts("/", &["https"], peer, &["192.0.2.1"]), Scheme::Http),
            (parts("https://example.com/", &[], peer, &[]), Scheme::Https),
            (parts("/", &["httpsx"], peer, &[]), Scheme::Http),
        ];
        for (parts, expected) in cases {
            assert_eq!(Scheme::of(&parts), expected, "{parts:?}");
        }
    }

    #[test]
    fn the_extension_wins() {
        let mut parts = parts("/", &[], "10.0.0.1:9", &[]);
        parts.extensions.insert(Scheme::Https);
        assert_eq!(Scheme::of(&parts), Scheme::Https);
    }
}
