use url::{Host, Url};

/// Where a client wants its answers, checked: `https`, plain `http` at this computer, or a scheme of the client's own
/// (RFC 8252, section 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RedirectUri {
    /// The original text, which is compared.
    text: String,
    url: Url,
}

/// A redirect URI that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a redirect URI is https://, http:// at 127.0.0.1, [::1] or localhost, or has a private scheme; it has no fragment and no user information"
)]
pub struct InvalidRedirectUri;

/// Schemes that run code, read files or have a special meaning in browsers.
const FORBIDDEN: [&str; 17] = [
    "about",
    "blob",
    "cid",
    "data",
    "file",
    "filesystem",
    "ftp",
    "ftps",
    "intent",
    "javascript",
    "jar",
    "mailto",
    "mid",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

impl RedirectUri {
    /// The longest that is taken, in bytes.
    const MAX_BYTES: usize = 1_024;

    pub(super) fn parse(text: &str) -> Result<Self, InvalidRedirectUri> {
        if text.len() > Self::MAX_BYTES || text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(InvalidRedirectUri);
        }
        let url = Url::parse(text).map_err(|_| InvalidRedirectUri)?;
        let scheme_is_sound = match url.scheme() {
            "https" => url.has_host(),
            "http" => is_loopback(&url),
            other => !FORBIDDEN.contains(&other),
        };
        let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if scheme_is_sound && bare { Ok(Self { text: text.to_owned(), url }) } else { Err(InvalidRedirectUri) }
    }

    /// As it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether an answer may go to `asked` if this one is registered: the text is the same, except that the port of a
    /// loopback address may differ (RFC 8252, section 7.3).
    pub(super) fn admits(&self, asked: &Self) -> bool {
        if self.text == asked.text {
            return true;
        }
        let plain = |uri: &Self| uri.url.scheme() == "http" && uri.is_loopback();
        plain(self) && plain(asked) && without_port(&self.text) == without_port(&asked.text)
    }

    /// Whether the answer stays on the user's computer, where any program may be listening.
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }

    /// The text for users: the host, or the scheme of an application.
    pub(super) fn host(&self) -> String {
        match self.url.scheme() {
            "http" | "https" => self.url.host_str().unwrap_or_default().to_owned(),
            scheme => format!("{scheme}:"),
        }
    }

    /// The source that a page's policy must allow so that a form's answer may lead there.
    pub(super) fn policy_source(&self) -> String {
        match self.url.scheme() {
            "http" | "https" => self.url.origin().ascii_serialization(),
            scheme => format!("{scheme}:"),
        }
    }

    /// The URI with parameters added to its query.
    pub(super) fn with<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(pairs);
        url.into()
    }
}

/// The text of an `http` URI in two parts, without the port between them.
fn without_port(text: &str) -> (&str, &str) {
    let start = text.find("//").map_or(0, |at| at + 2);
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    let (authority, rest) = text.split_at(end);
    let host = authority.trim_end_matches(|c: char| c.is_ascii_digit());
    (host.strip_suffix(':').unwrap_or(authority), rest)
}

fn is_loopback(url: &Url) -> bool {
    let here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    here && matches!(url.scheme(), "http" | "https")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_that_could_run_code_are_refused() {
        for good in [
            "https://app.example.com/callback",
            "https://app.example.com/callback?x=1",
            "http://127.0.0.1:4000/callback",
            "http://localhost/callback",
            "http://[::1]:9/callback",
            "cursor://anysphere.cursor-retrieval/oauth/callback",
            "com.example.app:/callback",
        ] {
            assert!(RedirectUri::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/callback",
            "http://app.example.com/callback",
            "http://localhost.evil.example/",
            "https://user@app.example.com/",
            "https://app.example.com/#fragment",
            "https://app.example.com\\@evil.example/",
            "https://app.example.com/ x",
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "blob:https://app.example.com/x",
            "vbscript:x",
        ] {
            assert!(RedirectUri::parse(bad).is_err(), "{bad}");
        }
        assert!(RedirectUri::parse(&format!("https://a.example/{}", "a".repeat(1_024))).is_err());
    }

    #[test]
    fn a_redirect_uri_is_compared_exactly_except_for_a_loopback_port() {
        for (registered, asked, admitted) in [
            ("https://app.example.com/cb", "https://app.example.com/cb", true),
            ("https://app.example.com/cb", "https://app.example.com/cb/", false),
            ("https://app.example.com/cb", "https://app.example.com/cb?x=1", false),
            ("https://app.example.com/cb", "https://app.example.com/cb/../evil", false),
            ("https://app.example.com/cb", "https://app.example.com:444/cb", false),
            ("https://app.example.com/cb", "https://evil.example/cb", false),
            ("https://app.example.com/cb", "https://app.example.com/x/../cb", false),
            ("https://app.example.com/cb", "https://app.example.com:443/cb", false),
            ("https://app.example.com/cb", "https://APP.example.com/cb", false),
            ("https://app.example.com/cb", "https://app.example.com/%63b", false),
            ("https://app.example.com", "https://app.example.com", true),
            ("https://app.example.com", "https://app.example.com/", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5123/cb", true),
            ("http://127.0.0.1:80/cb", "http://127.0.0.1:5123/cb", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:5123/other", false),
            ("http://127.0.0.1/cb", "http://localhost:5123/cb", false),
            ("http://127.0.0.1/cb", "https://127.0.0.1:5123/cb", false),
            ("http://127.0.0.1:7777/cb", "http://127.1:9999/cb", false),
            ("http://127.0.0.1:7777/cb", "http://127.0.0.1:9999/x/../cb", false),
            ("http://127.0.0.1", "http://127.0.0.1:9999", true),
            ("http://127.0.0.1?x=1", "http://127.0.0.1:9999?x=1", true),
            ("http://127.0.0.1/cb", "http://127.0.0.2:9999/cb", false),
            ("http://[::1]/cb", "http://[::1]:5123/cb", true),
            ("http://[::1]/cb", "http://[::1]/cb:5123", false),
            ("app.example:/cb", "app.example:/cb", true),
            ("app.example:/cb", "app.example:/other", false),
        ] {
            let (registered, asked) = (RedirectUri::parse(registered).unwrap(), RedirectUri::parse(asked).unwrap());
            assert_eq!(registered.admits(&asked), admitted, "{registered:?} {asked:?}");
        }
    }

    #[test]
    fn parameters_are_added_to_what_is_there() {
        let uri = RedirectUri::parse("https://app.example.com/cb?x=1").unwrap();
        assert_eq!(
            uri.with([("code", "a b"), ("state", "&=")]),
            "https://app.example.com/cb?x=1&code=a+b&state=%26%3D"
        );
    }
}
