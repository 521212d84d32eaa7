use std::fmt;

use percent_encoding::{CONTROLS, percent_decode_str, utf8_percent_encode};
use url::{Url, form_urlencoded};

/// The redirect target after a sign-in: a path on this origin, or a URL that [`RedirectUrls`](crate::RedirectUrls)
/// allow, checked once and safe to write into `Location`.
///
/// A path begins with a single slash and stays on the origin however a browser, or a proxy that decodes and resolves
/// paths, may read it. For anything else there is no `Next`, and the flow redirects to `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next(String);

impl Next {
    /// The longest accepted path, in bytes.
    pub const MAX_BYTES: usize = 2048;

    /// Checks `text`. Refused are full URLs, `//host` and `/\host` in every disguise (percent-encoded up to three
    /// times, behind dot segments), backslashes, control characters, spaces and more than [`Next::MAX_BYTES`].
    /// Characters beyond ASCII are percent-encoded.
    pub fn parse(text: &str) -> Option<Self> {
        let visible = |c: char| !c.is_control() && !c.is_whitespace() && c != '\\';
        if text.len() > Self::MAX_BYTES || !text.starts_with('/') || !text.chars().all(visible) {
            return None;
        }
        let encoded: String = utf8_percent_encode(text, CONTROLS).collect();
        if !readings(&encoded)?.iter().all(|reading| stays_on_origin(reading)) {
            return None;
        }
        Some(Self(encoded))
    }

    /// An address that was looked for among the allowed ones.
    pub(crate) fn allowed(url: &str) -> Self {
        Self(url.to_owned())
    }

    /// The path or the URL, in ASCII.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same path or URL, with these names and values at the end of its query.
    pub fn with_query<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let (address, fragment) =
            self.0.split_once('#').map_or((&*self.0, None), |(address, rest)| (address, Some(rest)));
        let pairs = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let joint = match address.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
        format!("{address}{joint}{pairs}{fragment}")
    }

    /// Whether it is `path` or below it, in any way in which a browser or a proxy may read it.
    pub fn is_at_or_below(&self, path: &str) -> bool {
        let leads_there = |reading: &String| resolve(reading).is_some_and(|url| starts_with(url.path(), path));
        readings(&self.0).is_some_and(|readings| readings.iter().any(leads_there))
    }
}

impl Default for Next {
    /// The root, `/`.
    fn default() -> Self {
        Self("/".to_owned())
    }
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of `text` unchanged, and decoded up to three times: a proxy may decode a path before it forwards or
/// redirects. `None` if a reading is not text.
pub(crate) fn readings(text: &str) -> Option<Vec<String>> {
    let mut reading = text.split(['?', '#']).next().unwrap_or_default().to_owned();
    let mut readings = Vec::new();
    for _ in 0..=3 {
        let decoded = percent_decode_str(&reading).decode_utf8().ok()?.into_owned();
        let done = decoded == reading;
        readings.push(std::mem::replace(&mut reading, decoded));
        if done {
            break;
        }
    }
    Some(readings)
}

/// Whether one reading of a path stays on its origin.
fn stays_on_origin(path: &str) -> bool {
    let single_slash = |path: &str| path.starts_with('/') && !path.starts_with("//");
    let clean = !path.chars().any(|c| c.is_control() || c == '\\');
    clean && single_slash(path) && resolve(path).is_some_and(|url| single_slash(url.path()))
}

/// By segments, of which empty ones do not count: some proxies merge slashes.
fn starts_with(path: &str, prefix: &str) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    prefix.split('/').filter(|segment| !segment.is_empty()).all(|segment| segments.next() == Some(segment))
}

/// The target of `path` for a browser on this origin; `None` if that is another origin.
fn resolve(path: &str) -> Option<Url> {
    let base = Url::parse("https://here.invalid/").ok()?;
    base.join(path).ok().filter(|url| url.origin() == base.origin())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn same_origin_paths_are_kept() {
        let cases = [
            ("/", "/"),
            ("/home", "/home"),
            ("/a/b?c=d&e=f#g", "/a/b?c=d&e=f#g"),
            ("/a?url=https://example.com//x", "/a?url=https://example.com//x"),
            ("/a%20b", "/a%20b"),
            ("/a//b", "/a//b"),
            ("/caf\u{e9}", "/caf%C3%A9"),
            ("/@user", "/@user"),
            ("/a:b", "/a:b"),
        ];
        for (text, expected) in cases {
            assert_eq!(Next::parse(text).as_ref().map(Next::as_str), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_could_leave_the_origin_are_refused() {
        let cases = [
            "",
            "home",
            "https://evil.com",
            "HTTPS://evil.com",
            "//evil.com",
            "///evil.com",
            "////evil.com",
            "/\\evil.com",
            "\\/evil.com",
            "\\\\evil.com",
            "/\\/evil.com",
            "/a\\b",
            "/\t/evil.com",
            "/\n/evil.com",
            "/\r\nSet-Cookie: a=b",
            "\t//evil.com",
            " /evil",
            " //evil.com",
            "/ /evil.com",
            "/a b",
            "/\u{0}",
            "/%00",
            "/%0d%0aX: y",
            "/%2fevil.com",
            "/%2Fevil.com",
            "/%5cevil.com",
            "/%5Cevil.com",
            "/%252fevil.com",
            "/%25252fevil.com",
            "/.//evil.com",
            "/..//evil.com",
            "/a/..//evil.com",
            "/%2e/%2fevil.com",
            "/%2e%2e//evil.com",
            "/.%2f/evil.com",
            "/%09/evil.com",
            "javascript:alert(1)",
            "data:text/html,x",
            "mailto:a@b",
            "?next=/",
            "#x",
            "/\u{a0}/x",
            "/\u{2028}x",
            "/%ff",
            "/\u{7f}",
            "./a",
            "../a",
            "@evil.com",
            "http:/evil.com",
            "http:evil.com",
        ];
        for text in cases {
            assert_eq!(Next::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_path_is_recognised_in_every_spelling() {
        let cases = [
            ("/auth/oauth", true),
            ("/auth/oauth/", true),
            ("/auth/oauth/google/link?next=/x#y", true),
            ("/auth//oauth/google/link", true),
            ("/auth/./oauth/google/link", true),
            ("/x/../auth/oauth/google/link", true),
            ("/x/%2e%2e/auth/oauth/google/link", true),
            ("/auth/%6fauth/google/link", true),
            ("/auth%2foauth%2fgoogle/link", true),
            ("/auth/%256fauth/google/link", true),
            ("/x/%252e%252e/auth/oauth/google/link", true),
            ("/auth", false),
            ("/auth/me", false),
            ("/auth/oauthx", false),
            ("/auth/x/oauth/google", false),
            ("/x?/auth/oauth/google", false),
            ("/x#/auth/oauth/google", false),
            ("/auth/oauth/../me", false),
            ("/", false),
        ];
        for (text, expected) in cases {
            assert_eq!(Next::parse(text).unwrap().is_at_or_below("/auth/oauth"), expected, "{text}");
        }
    }

    #[test]
    fn names_and_values_are_added_to_the_query_before_the_fragment() {
        let pairs = [("error", "access_denied"), ("error_description", "a & b?")];
        let query = "error=access_denied&error_description=a+%26+b%3F";
        for (text, expected) in [
            ("/", format!("/?{query}")),
            ("/a?b=c", format!("/a?b=c&{query}")),
            ("/a?", format!("/a?{query}")),
            ("/a#/route?x", format!("/a?{query}#/route?x")),
            ("/a?b=c#d", format!("/a?b=c&{query}#d")),
        ] {
            let with = Next::parse(text).unwrap().with_query(pairs);
            assert_eq!(with, expected);
            assert_eq!(Next::parse(&with).map(|next| next.to_string()), Some(with));
        }
    }

    #[test]
    fn the_length_is_bounded() {
        let at_most = format!("/{}", "a".repeat(Next::MAX_BYTES - 1));
        assert!(Next::parse(&at_most).is_some());
        assert!(Next::parse(&format!("{at_most}a")).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn accepted_paths_stay_on_the_origin(text in "[/\\\\.%@:?#a-f0-9 \t\n\u{0}\u{e9}]{0,24}|\\PC{0,40}") {
            let base = Url::parse("https://app.example.com/login").unwrap();
            if let Some(next) = Next::parse(&text) {
                let reached = base.join(next.as_str()).unwrap();
                prop_assert_eq!(reached.origin(), base.origin());
                prop_assert!(!reached.path().starts_with("//"));
                prop_assert!(http::HeaderValue::from_str(next.as_str()).is_ok());
                let again = Next::parse(next.as_str());
                prop_assert_eq!(again, Some(next));
            }
        }
    }
}
