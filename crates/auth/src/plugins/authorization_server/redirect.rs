use std::net::{Ipv4Addr, Ipv6Addr};

use gatewright_http::{FormTarget, Origin};
use url::{Host, Url};

/// Where a client wants its answers, checked: `https`, plain `http` at this computer, or the scheme of a program (RFC 8252,
/// section 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RedirectUri {
    /// The original text, which is compared.
    text: String,
    url: Url,
    target: Target,
}

/// What receives the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// A website, or a program that listens on this computer.
    Web(Origin),
    /// A program that handles the scheme.
    Program(FormTarget),
}

/// A redirect URI that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", Self::TEXT)]
pub struct InvalidRedirectUri;

impl InvalidRedirectUri {
    pub(super) const TEXT: &str = "a redirect URI is https:// with a host of letters, digits, dots and hyphens or an \
        address, http:// at 127.0.0.1, [::1] or localhost, or has a program's scheme: one with a dot, such as \
        com.example.app:, or claude:, cursor:, vscode:, vscode-insiders:, vscodium:, windsurf: or zed:; it has no fragment \
        and no user information";
}

/// Programs whose scheme has no dot, although RFC 8252, section 7.1, requires one. Any other scheme without a dot may run code
/// (`javascript:`), read files, or be another program's.
const PROGRAMS: [&str; 7] = ["claude", "cursor", "vscode", "vscode-insiders", "vscodium", "windsurf", "zed"];

impl RedirectUri {
    /// The longest that is taken, in bytes.
    const MAX_BYTES: usize = 1_024;

    pub(super) fn parse(text: &str) -> Result<Self, InvalidRedirectUri> {
        if text.len() > Self::MAX_BYTES || text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(InvalidRedirectUri);
        }
        let url = Url::parse(text).map_err(|_| InvalidRedirectUri)?;
        let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if !bare || !has_plain_host(&url) {
            return Err(InvalidRedirectUri);
        }
        let target = match url.scheme() {
            "https" => Origin::of(&url).map(Target::Web),
            "http" if is_loopback(&url) => Origin::of(&url).map(Target::Web),
            scheme if is_program(scheme) => FormTarget::program(scheme).map(Target::Program),
            _ => None,
        };
        Ok(Self { text: text.to_owned(), target: target.ok_or(InvalidRedirectUri)?, url })
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

    /// What a page's policy must allow so that a form's answer may lead there.
    pub(super) fn form_target(&self) -> FormTarget {
        match &self.target {
            Target::Web(origin) => origin.into(),
            Target::Program(target) => target.clone(),
        }
    }

    /// The URI with parameters added to its query.
    pub(super) fn with<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let mut url = self.url.clone();
        let mut pairs = pairs.into_iter().peekable();
        if pairs.peek().is_some() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
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

/// Whether the host, if there is one, is an address or a name of letters, digits, dots and hyphens. The URL parser accepts
/// more, and a host is quoted on the consent page and in its policy.
fn has_plain_host(url: &Url) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    match url.host() {
        Some(Host::Domain(name)) => name.bytes().all(plain),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => true,
    }
}

/// Whether a scheme is one that a program may have: the reverse of a domain name, or a listed one.
fn is_program(scheme: &str) -> bool {
    let is_reverse_domain = scheme.contains('.') && scheme.split('.').all(|label| !label.is_empty());
    is_reverse_domain || PROGRAMS.contains(&scheme)
}

fn is_loopback(url: &Url) -> bool {
    let here = match url.host() {
        Some(Host::Ipv4(address)) => address == Ipv4Addr::LOCALHOST,
        Some(Host::Ipv6(address)) => address == Ipv6Addr::LOCALHOST,
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    here && matches!(url.scheme(), "http" | "https")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_shapes_are_redirect_uris() {
        for good in [
            "https://app.example.com/callback",
            "https://app.example.com/callback?x=1",
            "http://127.0.0.1:4000/callback",
            "http://localhost/callback",
            "http://[::1]:9/callback",
            "cursor://anysphere.cursor-retrieval/oauth/callback",
            "com.example.app:/callback",
            "com.example.app://host/callback",
            "vscode://vendor.extension/callback",
            "vscode-insiders://vendor.extension/callback",
            "claude://callback",
            "https://203.0.113.9/callback",
            "https://[2001:db8::1]:8443/callback",
            "https://localhost:8443/callback",
            "https://b\u{fc}cher.example/callback",
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
            // Other schemes, known to be dangerous or not.
            "myapp:/callback",
            "intent://app/#Intent",
            "ms-msdt:/id",
            "search-ms:query=x",
            "mailto:a@example.com",
            "ftp://app.example.com/callback",
            "ws://app.example.com/callback",
            "about:blank",
            "view-source:https://app.example.com/",
            ".app:/callback",
            "com..app:/callback",
            "com.app.:/callback",
            "cursor2:/callback",
            // Other names of this computer.
            "http://127.0.0.2/callback",
            "http://localhost./callback",
            "http://[::2]/callback",
            // Characters that are special in the page's policy.
            "https://*/cb",
            "https://*.example/cb",
            "https://client.example;sandbox/cb",
            "https://client.example,x/cb",
            "https://client.example'x/cb",
            "https://client_example/cb",
            "https:///cb;x",
            "cursor://a;sandbox/cb",
            "com.example.app://a,b/cb",
            "https://",
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
