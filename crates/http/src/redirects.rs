use std::sync::Arc;

use url::Url;

use crate::next::readings;
use crate::{FormTarget, Next, Origin};

/// The URLs of other origins to which a browser may be redirected after a sign-in: those of a front end on another
/// origin.
///
/// Each is an exact origin, and a path that counts as a prefix at a segment boundary:
/// `https://app.example.com/callback` allows `/callback`, `/callback?x=1` and `/callback/done`, and not `/callbacks`. A
/// middleware puts it into the request's extensions; [`Submission`](crate::Submission) then reads `next` with it.
/// Without one, only paths of this origin are a [`Next`].
#[derive(Debug, Clone, Default)]
pub struct RedirectUrls {
    allowed: Arc<[Allowed]>,
    own: Option<Origin>,
    home: Option<Next>,
    logs: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    origin: Origin,
    segments: Vec<String>,
}

/// A URL that cannot be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an http:// or https:// address with a host, without user name, query, fragment, backslash and encoded characters"
)]
pub struct InvalidRedirectUrl;

/// Why a text is not a [`Next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedNext {
    /// Longer than [`Next::MAX_BYTES`].
    #[error("it is longer than {} bytes", Next::MAX_BYTES)]
    TooLong,
    /// It has control characters, spaces or backslashes.
    #[error("it has control characters, spaces or backslashes")]
    Characters,
    /// It begins with a slash, but a browser could read it as another origin.
    #[error("it is a path that a browser could read as another origin")]
    Path,
    /// It is neither a path nor an absolute URL with `http` or `https`.
    #[error("it is neither a path nor an http:// or https:// address")]
    Scheme,
    /// It has a user name or a password.
    #[error("it has a user name before the host")]
    UserInfo,
    /// No allowed URL has its origin.
    #[error("no entry of redirect_urls has its origin")]
    Origin,
    /// Its origin is allowed, but its path is not at or below an allowed path.
    #[error("its path does not lie at or below that of an entry of redirect_urls")]
    Prefix,
}

impl RedirectUrls {
    /// Reads the URLs.
    pub fn parse(urls: &[Url]) -> Result<Self, InvalidRedirectUrl> {
        let allowed = urls.iter().map(Allowed::of).collect::<Option<Vec<_>>>().ok_or(InvalidRedirectUrl)?;
        Ok(Self { allowed: allowed.into(), ..Self::default() })
    }

    /// The service's own origin: an allowed URL on it is converted into its path.
    pub fn own_origin(self, own: Option<Origin>) -> Self {
        Self { own, ..self }
    }

    /// The front end, to which flows without a `next` and with a refused one lead. It is allowed like the others.
    pub fn home(mut self, url: &Url) -> Result<Self, InvalidRedirectUrl> {
        let home = Allowed::of(url).ok_or(InvalidRedirectUrl)?;
        self.allowed = self.allowed.iter().cloned().chain([home]).collect();
        self.home = self.next(url.as_str());
        Ok(self)
    }

    /// Where a flow without a `next` leads: the front end, or `/`.
    pub fn otherwise(&self) -> &str {
        self.home.as_ref().map_or("/", Next::as_str)
    }

    /// What a refused `next` leads to: the front end, or `/`.
    pub(crate) fn fallback(&self) -> Next {
        self.home.clone().unwrap_or_default()
    }

    /// Logs each refused `next` with the reason. Only for development, because `next` is untrusted text.
    pub fn log_refused(self, logs: bool) -> Self {
        Self { logs, ..self }
    }

    /// The target of `text`, if it is a path on this origin or an allowed URL.
    pub fn next(&self, text: &str) -> Option<Next> {
        match self.check(text) {
            Ok(next) => Some(next),
            Err(reason) => {
                if self.logs {
                    // The query may have a token in it.
                    let shown: String = text.split(['?', '#']).next().unwrap_or_default().chars().take(200).collect();
                    tracing::info!(next = ?shown, %reason, "next was refused; the browser is redirected to `server.app_url` or /");
                }
                None
            }
        }
    }

    /// The same, with the reason.
    pub fn check(&self, text: &str) -> Result<Next, RefusedNext> {
        let visible = |c: char| !c.is_control() && !c.is_whitespace() && c != '\\';
        if text.len() > Next::MAX_BYTES {
            return Err(RefusedNext::TooLong);
        }
        if !text.chars().all(visible) {
            return Err(RefusedNext::Characters);
        }
        if text.starts_with('/') {
            return Next::parse(text).ok_or(RefusedNext::Path);
        }
        let url = absolute(text)?;
        let origin = Origin::of(&url).ok_or(RefusedNext::Scheme)?;
        let mut same_origin = self.allowed.iter().filter(|allowed| allowed.origin == origin).peekable();
        if same_origin.peek().is_none() {
            return Err(RefusedNext::Origin);
        }
        let readings = readings(url.path()).ok_or(RefusedNext::Characters)?;
        // However often a proxy on the way decodes the path, it stays below the allowed one.
        if !same_origin.any(|allowed| readings.iter().all(|reading| allowed.holds(reading))) {
            return Err(RefusedNext::Prefix);
        }
        if self.own.as_ref() == Some(&origin) {
            let path = &url[url::Position::BeforePath..];
            return Next::parse(path).ok_or(RefusedNext::Path);
        }
        if url.as_str().len() > Next::MAX_BYTES {
            return Err(RefusedNext::TooLong);
        }
        // An origin without a path stays as it is written.
        let bare = url.as_str().strip_suffix('/').filter(|bare| *bare == text);
        Ok(Next::allowed(bare.unwrap_or(url.as_str())))
    }

    /// The other origins, for a page whose form is answered with a redirect to one.
    pub fn form_targets(&self) -> Vec<FormTarget> {
        let mut origins: Vec<&Origin> = self.allowed.iter().map(|allowed| &allowed.origin).collect();
        origins.sort_unstable_by_key(|origin| origin.as_str());
        origins.dedup();
        origins.into_iter().map(FormTarget::from).collect()
    }
}

/// Accepts only the exact spelling `scheme://host`: the URL parser accepts text that browsers read in several ways.
fn absolute(text: &str) -> Result<Url, RefusedNext> {
    let (scheme, rest) = text.split_once("://").ok_or(RefusedNext::Scheme)?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(RefusedNext::Scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(RefusedNext::UserInfo);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    if authority.is_empty() || !authority.chars().all(plain) {
        return Err(RefusedNext::Origin);
    }
    Url::parse(text).map_err(|_| RefusedNext::Origin)
}

impl Allowed {
    fn of(url: &Url) -> Option<Self> {
        let origin = Origin::of(url)?;
        let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        let plain = !url.path().contains(['%', '\\']) && !url.path().contains("//") && url.fragment().is_none();
        (bare && plain).then(|| Self { origin, segments: segments(url.path()).map(str::to_owned).collect() })
    }

    /// Whether one reading of a path is at or below this one's.
    fn holds(&self, reading: &str) -> bool {
        if reading.contains("//") || reading.chars().any(|c| c == '\\' || c.is_control()) {
            return false;
        }
        // No dots that a reader may resolve against the segments before them.
        if segments(reading).any(|segment| matches!(segment, "." | "..")) {
            return false;
        }
        let mut found = segments(reading);
        self.segments.iter().all(|segment| found.next() == Some(segment))
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn urls(texts: &[&str]) -> RedirectUrls {
        let urls: Vec<Url> = texts.iter().map(|text| text.parse().unwrap()).collect();
        RedirectUrls::parse(&urls).unwrap()
    }

    #[test]
    fn allowed_urls_are_accepted_and_normalised() {
        let list = urls(&["https://app.example.com/callback", "http://localhost:5173"]);
        for (text, expected) in [
            ("/home?x=1", "/home?x=1"),
            ("https://app.example.com/callback", "https://app.example.com/callback"),
            ("https://app.example.com/callback/", "https://app.example.com/callback/"),
            ("https://app.example.com/callback/done?x=1#y", "https://app.example.com/callback/done?x=1#y"),
            ("https://app.example.com/callback?next=//evil.com", "https://app.example.com/callback?next=//evil.com"),
            ("HTTPS://App.Example.COM:443/callback", "https://app.example.com/callback"),
            ("https://app.example.com/x/../callback", "https://app.example.com/callback"),
            ("https://app.example.com/callback/caf\u{e9}", "https://app.example.com/callback/caf%C3%A9"),
            ("http://localhost:5173", "http://localhost:5173"),
            ("HTTP://localhost:5173", "http://localhost:5173/"),
            ("http://localhost:5173/any/where", "http://localhost:5173/any/where"),
        ] {
            assert_eq!(list.check(text).as_ref().map(Next::as_str), Ok(expected), "{text}");
        }
    }

    #[test]
    fn ambiguous_urls_are_refused() {
        use RefusedNext::{Characters, Origin, Path, Prefix, Scheme, UserInfo};
        let list = urls(&["https://app.example.com/callback", "https://spa.example.com"]);
        for (text, reason) in [
            // Userinfo.
            ("https://app.example.com@evil.com/callback", UserInfo),
            ("https://app.example.com:x@evil.com/callback", UserInfo),
            ("https://user@app.example.com/callback", UserInfo),
            ("https://app.example.com%40evil.com/callback", Origin),
            // Backslash.
            ("https://app.example.com\\@evil.com/callback", Characters),
            ("https:\\\\app.example.com/callback", Characters),
            ("https://evil.com\\.app.example.com/callback", Characters),
            // Suffix, prefix, subdomain, trailing dot.
            ("https://app.example.com.evil.com/callback", Origin),
            ("https://evilapp.example.com/callback", Origin),
            ("https://x.app.example.com/callback", Origin),
            ("https://app.example.com./callback", Origin),
            ("https://example.com/callback", Origin),
            // Port and scheme.
            ("https://app.example.com:8443/callback", Origin),
            ("https://app.example.com:80/callback", Origin),
            ("http://app.example.com/callback", Origin),
            ("http://app.example.com:443/callback", Origin),
            ("javascript:alert(1)", Scheme),
            ("javascript://app.example.com/%0aalert(1)", Scheme),
            ("data:text/html,x", Scheme),
            ("ftp://app.example.com/callback", Scheme),
            ("https:app.example.com/callback", Scheme),
            ("https:/app.example.com/callback", Scheme),
            ("https:///app.example.com/callback", Origin),
            ("app.example.com/callback", Scheme),
            // Slashes.
            ("//app.example.com/callback", Path),
            ("///app.example.com/callback", Path),
            ("/\u{9}/app.example.com", Characters),
            // Encoded slashes, dots, and the boundary of a segment.
            ("https://app.example.com/callback%2f..%2fadmin", Prefix),
            ("https://app.example.com/callback/..%2fadmin", Prefix),
            ("https://app.example.com/callback/%2e%2e/admin", Prefix),
            ("https://app.example.com/callback/..", Prefix),
            ("https://app.example.com/callback/%252e%252e/admin", Prefix),
            ("https://app.example.com/callback/%25252e%25252e/admin", Prefix),
            ("https://app.example.com/callback/..;/admin/%5c", Prefix),
            ("https://app.example.com/callback/%5c..%5cadmin", Prefix),
            ("https://app.example.com/callback//evil.com", Prefix),
            ("https://app.example.com/callback/%2f/evil.com", Prefix),
            ("https://app.example.com/callback%2Fdone", Prefix),
            ("https://app.example.com/callbacks", Prefix),
            ("https://app.example.com/Callback", Prefix),
            ("https://app.example.com/", Prefix),
            ("https://app.example.com", Prefix),
            ("https://app.example.com?/callback", Prefix),
            ("https://app.example.com#/callback", Prefix),
            ("https://spa.example.com//evil.com", Prefix),
            // Control characters and spaces.
            ("https://app.example.com/callback\r\nSet-Cookie: a=b", Characters),
            ("https://app.example.com/call\tback", Characters),
            ("\u{1}https://app.example.com/callback", Characters),
            (" https://app.example.com/callback", Characters),
            ("https://app.example.com/callback\u{a0}", Characters),
            ("https://app.example.com/callback/%0d%0aX", Prefix),
            ("https://app.example.com/callback/%00", Prefix),
            ("https://app.example.com/callback/%ff", Characters),
            // Hosts that are not ASCII.
            ("https://\u{ff41}pp.example.com/callback", Origin),
            ("https://app\u{3002}example.com/callback", Origin),
            ("https://ap%70.example.com/callback", Origin),
            ("", Scheme),
        ] {
            assert_eq!(list.check(text), Err(reason), "{text:?}");
        }
    }

    #[test]
    fn without_entries_only_paths_of_this_origin_pass() {
        let none = RedirectUrls::default();
        assert!(none.check("/home").is_ok());
        assert_eq!(none.check("https://app.example.com/"), Err(RefusedNext::Origin));
        assert_eq!(none.form_targets(), []);
    }

    #[test]
    fn an_entry_on_the_own_origin_is_a_path() {
        let own = urls(&["https://app.example.com"]).own_origin(Some("https://app.example.com".parse().unwrap()));
        assert_eq!(own.check("https://app.example.com/a?b#c").unwrap().as_str(), "/a?b#c");
        assert!(own.check("https://app.example.com/auth/oauth/x").unwrap().is_at_or_below("/auth/oauth"));
    }

    #[test]
    fn an_entry_is_a_plain_address() {
        for (text, sound) in [
            ("https://app.example.com", true),
            ("https://app.example.com/callback", true),
            ("http://localhost:5173/", true),
            ("https://user@app.example.com", false),
            ("https://app.example.com/?x", false),
            ("https://app.example.com/#x", false),
            ("https://app.example.com/a%2fb", false),
            ("https://app.example.com//a", false),
            ("ftp://app.example.com", false),
            ("myapp:/callback", false),
            ("https://*", false),
            ("https://app.example.com;sandbox", false),
        ] {
            assert_eq!(RedirectUrls::parse(&[text.parse().unwrap()]).is_ok(), sound, "{text}");
        }
        let list = urls(&["https://b.example.com/x", "https://a.example.com", "https://b.example.com/y"]);
        let origins =
            ["https://a.example.com", "https://b.example.com"].map(|origin| origin.parse::<Origin>().unwrap());
        assert_eq!(list.form_targets(), origins.each_ref().map(FormTarget::from));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn accepted_urls_lead_to_an_allowed_origin(
            tail in "[/\\\\.%@:?#a-f0-9 \t\n\u{e9}]{0,24}", host in "(app\\.example\\.com|a\\.b|[a-z.@:%]{0,12})"
        ) {
            let list = urls(&["https://app.example.com/a"]);
            let base = Url::parse("https://api.example.com/login").unwrap();
            if let Ok(next) = list.check(&format!("https://{host}{tail}")) {
                let reached = base.join(next.as_str()).unwrap();
                prop_assert_eq!(reached.origin().ascii_serialization(), "https://app.example.com");
                prop_assert!(reached.path() == "/a" || reached.path().starts_with("/a/"));
                prop_assert!(http::HeaderValue::from_str(next.as_str()).is_ok());
                prop_assert_eq!(list.check(next.as_str()), Ok(next));
            }
        }
    }
}
