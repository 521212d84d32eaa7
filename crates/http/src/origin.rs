use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

/// A web origin: scheme, host and port (RFC 6454), always `http` or `https`, in the form browsers send it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin(String);

/// Text that is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an origin: write http:// or https://, a host and, if needed, a port, and nothing after it")]
pub struct InvalidOrigin(pub String);

impl Origin {
    /// The origin that `url` belongs to; `None` unless it is `http` or `https` and its host is an address or a name of
    /// letters, digits, dots, hyphens and underscores. The URL parser accepts other characters in a host, such as `*`, `;`
    /// and `,`, which are special where origins are listed: in policies and headers.
    pub fn of(url: &Url) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let is_plain = match url.host()? {
            Host::Domain(name) => !name.is_empty() && name.bytes().all(plain),
            Host::Ipv4(_) | Host::Ipv6(_) => true,
        };
        let is_web = matches!(url.scheme(), "http" | "https");
        (is_web && is_plain).then(|| Self(url.origin().ascii_serialization()))
    }

    /// The text, such as `https://app.example.com` or `http://127.0.0.1:8080`: no default port, no slash at the end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `https`.
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// Whether it names this computer itself, which browsers trust like HTTPS.
    pub fn is_loopback(&self) -> bool {
        let url = Url::parse(&self.0).ok();
        match url.as_ref().and_then(Url::host) {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
    }
}

impl FromStr for Origin {
    type Err = InvalidOrigin;

    /// Takes an exact origin: no path, query, user name or wildcard. A default port and capitals in the host are
    /// brought into the form that browsers send.
    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let invalid = || InvalidOrigin(text.chars().take(200).collect());
        let (scheme, authority) = text.split_once("://").ok_or_else(invalid)?;
        // The URL parser forgives much (tabs, backslashes, missing slashes) that an exact origin must not contain.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        if !matches!(scheme, "http" | "https") || authority.is_empty() || !authority.chars().all(plain) {
            return Err(invalid());
        }
        let url = Url::parse(text).map_err(|_| invalid())?;
        Self::of(&url).ok_or_else(invalid)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Origin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_origins_are_accepted_and_normalised() {
        let cases = [
            ("https://app.example.com", "https://app.example.com"),
            ("https://App.Example.COM:443", "https://app.example.com"),
            ("http://localhost:80", "http://localhost"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("https://example.com:8443", "https://example.com:8443"),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Origin>().unwrap().as_str(), expected);
        }
    }

    #[test]
    fn a_host_has_no_character_that_is_special_in_a_policy() {
        for host in ["*", "*.example.com", "a.example;sandbox", "a.example,x", "a'b.example", "a.example;", "$x", "(a)"]
        {
            for url in [format!("https://{host}"), format!("http://{host}:8080/cb")] {
                let url = Url::parse(&url).unwrap();
                assert_eq!(Origin::of(&url), None, "{url}");
            }
        }
        let origin = |url: &str| Origin::of(&Url::parse(url).unwrap()).map(|origin| origin.to_string());
        assert_eq!(origin("https://b\u{fc}cher.example/x").as_deref(), Some("https://xn--bcher-kva.example"));
        assert_eq!(origin("http://in_house:81/").as_deref(), Some("http://in_house:81"));
        assert_eq!(origin("com.example.app://x"), None);
    }

    #[test]
    fn this_computer_is_known_by_its_names() {
        let cases = [
            ("http://localhost:8080", true),
            ("http://app.localhost", true),
            ("http://127.0.0.1", true),
            ("http://127.9.9.9:1", true),
            ("http://[::1]:3000", true),
            ("http://192.168.0.1", false),
            ("http://localhost.evil.com", false),
            ("http://notlocalhost", false),
            ("http://127.0.0.1.evil.com", false),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Origin>().unwrap().is_loopback(), expected, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let cases = [
            "",
            "*",
            "null",
            "https://",
            "https://*",
            "https://*.example.com",
            "example.com",
            "//example.com",
            "https:example.com",
            "https:///example.com",
            "https://example.com/",
            "https://example.com/path",
            "https://example.com?x",
            "https://example.com#x",
            "https://user@example.com",
            "ftp://example.com",
            "HTTPS://example.com",
            "https://exa mple.com",
            "https://example.com\\evil",
            "https://example.com:99999",
            "https://example.com:x",
            "https://example.com, https://evil.com",
            "javascript:alert(1)",
            "https://ex\tample.com",
        ];
        for text in cases {
            assert!(text.parse::<Origin>().is_err(), "{text:?}");
        }
    }
}
