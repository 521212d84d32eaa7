use std::net::IpAddr;

use url::{Host, Url};

/// An address of a provider that may be called: https, or plain http on this computer.
///
/// Codes, client secrets and tokens are sent there, so plain http is only allowed for `localhost` and `127.0.0.1`, in
/// dev mode and outside it: traffic on the loopback cannot be intercepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(Url);

/// An address that may not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it must be an https:// address, or http:// at localhost or 127.0.0.1, without user information and fragment")]
pub(crate) struct InvalidEndpoint;

impl Endpoint {
    pub(crate) fn new(url: Url) -> Result<Self, InvalidEndpoint> {
        let sound_scheme = match url.scheme() {
            "https" => url.has_host(),
            "http" => is_loopback(&url),
            _ => false,
        };
        let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if sound_scheme && bare { Ok(Self(url)) } else { Err(InvalidEndpoint) }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        Url::parse(text).map_err(|_| InvalidEndpoint).and_then(Self::new)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// Whether it is one of the two names of this computer that may use plain http.
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    /// Whether it is on this computer by any of its names.
    pub(super) fn is_here(&self) -> bool {
        let address = match self.0.host() {
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                return name == "localhost" || name.ends_with(".localhost");
            }
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical(),
            None => return false,
        };
        address.is_loopback() || address.is_unspecified()
    }

    pub(super) fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }
}

/// Whether a URL is allowed as an endpoint of a provider or as a callback URL: https, or plain http at `localhost` or
/// `127.0.0.1`, without user information and fragment.
pub fn is_provider_address(url: &Url) -> bool {
    Endpoint::new(url.clone()).is_ok()
}

fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_only_for_this_computer() {
        for sound in [
            "https://accounts.example.com/token",
            "https://10.0.0.1:8443/realms/x",
            "http://localhost:4000",
            "http://127.0.0.1:4000/a?b=c",
            // The parser's own spelling of the same address.
            "http://2130706433/",
        ] {
            assert!(Endpoint::parse(sound).is_ok(), "{sound}");
        }
        for unsound in [
            "",
            "accounts.example.com",
            "http://accounts.example.com/token",
            "http://localhost.example.com/",
            "http://127.0.0.2/",
            "http://[::1]/",
            "http://localhost@example.com/",
            "https://user:word@example.com/",
            "https://example.com/#x",
            "ftp://localhost/",
            "file:///etc/passwd",
            "javascript:alert(1)",
        ] {
            assert_eq!(Endpoint::parse(unsound), Err(InvalidEndpoint), "{unsound}");
        }
    }
}
