use std::fmt;

use gatewright_base::Live;
use http::HeaderValue;
use url::Url;

/// The origins whose pages may call with the browser's cookies. Only exact origins; cheap to clone, and all
/// clones change together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedOrigins(Live<Vec<HeaderValue>>);

/// Text that is not an exact origin, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" cannot be an allowed origin: {fault}")]
pub struct InvalidAllowedOrigin {
    /// The text, cut to 200 characters.
    pub text: String,
    /// The error.
    pub fault: OriginFault,
}

/// The error of an origin. `Display` says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginFault {
    /// A `*` somewhere.
    Wildcard,
    /// The word `null`.
    Null,
    /// Neither `http://` nor `https://`.
    Scheme,
    /// Something after host and port, be it a slash.
    Path,
    /// A user name or password.
    Credentials,
    /// Several origins, or spaces.
    Several,
    /// No host, or one that cannot be.
    Host,
    /// An origin, but not exactly as browsers send it. Contains the form that browsers send.
    Spelling(String),
}

impl AllowedOrigins {
    /// Takes each origin exactly as browsers send it: scheme, host, and a port unless it is the scheme's own.
    pub fn parse<T: AsRef<str>>(origins: &[T]) -> Result<Self, InvalidAllowedOrigin> {
        let header = |text: &T| {
            let text = text.as_ref();
            let invalid = |fault| InvalidAllowedOrigin { text: text.chars().take(200).collect(), fault };
            check(text).map_err(invalid)?;
            HeaderValue::from_str(text).map_err(|_| invalid(OriginFault::Host))
        };
        origins.iter().map(header).collect::<Result<Vec<_>, _>>().map(|list| Self(Live::new(list)))
    }

    /// Whether an `Origin` header is one of them, byte for byte.
    pub fn contains(&self, origin: &HeaderValue) -> bool {
        self.0.get().contains(origin)
    }

    /// Replaces the origins for all clones.
    pub fn replace(&self, others: &Self) {
        self.0.set(others.0.get().to_vec());
    }
}

impl<'de> serde::Deserialize<'de> for AllowedOrigins {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Vec::<String>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn check(text: &str) -> Result<(), OriginFault> {
    if text.eq_ignore_ascii_case("null") {
        return Err(OriginFault::Null);
    }
    if text.contains('*') {
        return Err(OriginFault::Wildcard);
    }
    if text.contains(|c: char| c == ',' || c.is_whitespace()) {
        return Err(OriginFault::Several);
    }
    let (scheme, host) = text.split_once("://").ok_or(OriginFault::Scheme)?;
    if !["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
        return Err(OriginFault::Scheme);
    }
    if host.contains(['/', '\\', '?', '#']) {
        return Err(OriginFault::Path);
    }
    if host.contains('@') {
        return Err(OriginFault::Credentials);
    }
    let canonical = Url::parse(text).map_err(|_| OriginFault::Host)?.origin().ascii_serialization();
    if canonical == text { Ok(()) } else { Err(OriginFault::Spelling(canonical)) }
}

impl fmt::Display for OriginFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wildcard => "wildcards are not accepted, so list every origin by its name",
            Self::Null => {
                "browsers send null for every page that has no origin of its own, so it would allow all of them"
            }
            Self::Scheme => "it must begin with http:// or https://",
            Self::Path => "nothing may follow the host and port, not even a slash",
            Self::Credentials => "an origin has no user name and no password",
            Self::Several => "write one origin, without spaces and commas",
            Self::Host => "it has no valid host and port",
            Self::Spelling(canonical) => return write!(f, "browsers send it as \"{canonical}\", so write that"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_origins_are_taken() {
        for text in [
            "https://app.example.com",
            "https://app.example.com:8443",
            "https://app.example.com.",
            "http://localhost:5173",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
            "https://xn--bcher-kva.example",
        ] {
            let allowed = AllowedOrigins::parse(&[text]).unwrap();
            assert!(allowed.contains(&HeaderValue::from_str(text).unwrap()), "{text}");
        }
        assert_eq!(AllowedOrigins::parse::<&str>(&[]).unwrap(), AllowedOrigins::default());
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        use OriginFault::{Credentials, Host, Null, Path, Scheme, Several, Wildcard};
        let spelling = |text: &str| OriginFault::Spelling(text.to_owned());
        let cases = [
            ("*", Wildcard),
            ("https://*", Wildcard),
            ("https://*.example.com", Wildcard),
            ("https://app.example.com:*", Wildcard),
            ("null", Null),
            ("NULL", Null),
            ("", Scheme),
            ("app.example.com", Scheme),
            ("//app.example.com", Scheme),
            ("ftp://app.example.com", Scheme),
            ("file:///", Scheme),
            ("chrome-extension://abc", Scheme),
            ("https:app.example.com", Scheme),
            ("https://app.example.com/", Path),
            ("https://app.example.com/app", Path),
            ("https://app.example.com?x", Path),
            ("https://app.example.com#x", Path),
            ("https://app.example.com\\", Path),
            ("https:///app.example.com", Path),
            ("https://user@app.example.com", Credentials),
            ("https://user:pass@app.example.com", Credentials),
            ("https://a.example, https://b.example", Several),
            (" https://app.example.com", Several),
            ("https://app.example.com\n", Several),
            ("https://app.exam\tple.com", Several),
            ("https://", Host),
            ("https://:443", Host),
            ("https://app.example.com:99999", Host),
            ("https://app.example.com:x", Host),
            ("https://[::1", Host),
            ("https://app.example.com:443", spelling("https://app.example.com")),
            ("http://app.example.com:80", spelling("http://app.example.com")),
            ("https://app.example.com:", spelling("https://app.example.com")),
            ("https://APP.example.com", spelling("https://app.example.com")),
            ("HTTPS://app.example.com", spelling("https://app.example.com")),
            ("https://b\u{fc}cher.example", spelling("https://xn--bcher-kva.example")),
            ("http://127.1", spelling("http://127.0.0.1")),
            ("http://0x7f000001", spelling("http://127.0.0.1")),
            ("http://[0:0::1]", spelling("http://[::1]")),
            ("https://%61pp.example.com", spelling("https://app.example.com")),
        ];
        for (text, fault) in cases {
            let error = AllowedOrigins::parse(&["https://good.example", text]).unwrap_err();
            assert_eq!(error.fault, fault, "{text:?}");
            assert!(error.to_string().starts_with(&format!("\"{text}\" cannot be an allowed origin: ")), "{error}");
        }
    }
}
