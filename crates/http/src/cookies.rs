//! Reads a cookie by its exact name, and sets or removes a cookie with the attributes that a credential needs.

use std::time::Duration;

use cookie::{Cookie, SameSite};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode;

/// The value of the cookie named exactly `name`, percent-decoded; `None` if there is none or it is not text.
///
/// Several `Cookie` headers are read in order, as HTTP/2 sends them. Of several cookies with this name the first
/// counts, as browsers send the most specific path first. An attacker who can set cookies on a sibling domain can put
/// theirs first. Therefore credentials use the `__Host-` prefix on encrypted connections.
pub fn read(headers: &HeaderMap, name: &str) -> Option<String> {
    values(headers, name).next().and_then(decode)
}

/// Whether there is a cookie named exactly `name`, with any value.
pub fn is_sent(headers: &HeaderMap, name: &str) -> bool {
    values(headers, name).next().is_some()
}

/// The values of every cookie named exactly `name`, in order, percent-decoded; what is not text becomes replacement
/// characters. For authenticated cookies, so that an attacker's cookie cannot hide the valid one.
pub fn read_all<'h>(headers: &'h HeaderMap, name: &'h str) -> impl Iterator<Item = String> + 'h {
    values(headers, name).map(|value| percent_decode(unquote(value)).decode_utf8_lossy().into_owned())
}

fn values<'h>(headers: &'h HeaderMap, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    // Read as bytes: another cookie that is not ASCII must not hide ours.
    let pairs = headers.get_all(COOKIE).into_iter().flat_map(|header| header.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| {
        let (key, value) = pair.split_at_checked(pair.iter().position(|byte| *byte == b'=')?)?;
        (key.trim_ascii() == name.as_bytes()).then(|| value[1..].trim_ascii())
    })
}

fn decode(value: &[u8]) -> Option<String> {
    let value = unquote(value);
    if !value.contains(&b'%') {
        return std::str::from_utf8(value).ok().map(str::to_owned);
    }
    percent_decode(value).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

fn unquote(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// A `Set-Cookie` that keeps `value` under `name` for `max_age`: `HttpOnly`, `SameSite=Lax`, `Path=/`, no `Domain`, and
/// `Secure` if requested. Characters that a cookie cannot contain are percent-encoded; [`read`] decodes them.
pub fn set(name: &'static str, value: &str, max_age: Duration, secure: bool) -> HeaderValue {
    let seconds = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
    header(name, value, cookie::time::Duration::seconds(seconds), secure)
}

/// The same with `SameSite=None`, for the answer that a page of another site posts here. Browsers accept it only with
/// `Secure`.
pub fn set_for_cross_site(name: &'static str, value: &str, max_age: Duration) -> HeaderValue {
    let seconds = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
    let cookie = base(name, value, true).same_site(SameSite::None);
    render(&cookie.max_age(cookie::time::Duration::seconds(seconds)).build())
}

/// A `Set-Cookie` that is kept until the browser closes, with the attributes of [`set`].
pub fn set_for_browser_session(name: &'static str, value: &str, secure: bool) -> HeaderValue {
    render(&base(name, value, secure).build())
}

/// A `Set-Cookie` that removes `name` from the browser. `secure` must be the same as when it was set, because browsers
/// refuse a `__Host-` cookie without it.
pub fn remove(name: &'static str, secure: bool) -> HeaderValue {
    header(name, "", cookie::time::Duration::ZERO, secure)
}

fn header(name: &'static str, value: &str, max_age: cookie::time::Duration, secure: bool) -> HeaderValue {
    render(&base(name, value, secure).max_age(max_age).build())
}

fn base<'c>(name: &'static str, value: &'c str, secure: bool) -> cookie::CookieBuilder<'c> {
    Cookie::build((name, value)).http_only(true).same_site(SameSite::Lax).path("/").secure(secure)
}

fn render(cookie: &Cookie<'_>) -> HeaderValue {
    HeaderValue::try_from(cookie.encoded().to_string()).expect("a percent-encoded cookie is visible ASCII")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        values.iter().map(|value| (COOKIE, HeaderValue::from_bytes(value).unwrap())).collect()
    }

    #[test]
    fn a_cookie_is_found_by_its_exact_name() {
        let cases: &[(&[&[u8]], Option<&str>)] = &[
            (&[], None),
            (&[b""], None),
            (&[b"sid=a"], Some("a")),
            (&[b"other=x; sid=a; more=y"], Some("a")),
            (&[b"other=x", b"sid=a"], Some("a")),
            (&[b"sid=first; sid=second"], Some("first")),
            (&[b"sid=first", b"sid=second"], Some("first")),
            (&[b"xsid=a"], None),
            (&[b"sidx=a"], None),
            (&[b"SID=a"], None),
            (&[b"__Host-sid=a"], None),
            (&[b"sid"], None),
            (&[b"sid="], Some("")),
            (&[b" sid = a "], Some("a")),
            (&[b"sid=a=b"], Some("a=b")),
            (&[b"sid=\"a\""], Some("a")),
            (&[b"sid=a%20b"], Some("a b")),
            (&[b"junk=\xff\xfe; sid=a"], Some("a")),
            (&[b"sid=\xff\xfe"], None),
            (&[b"sid=%ff"], None),
            (&[b"; ; =x; sid=a"], Some("a")),
        ];
        for (values, expected) in cases {
            assert_eq!(read(&headers(values), "sid").as_deref(), *expected, "{values:?}");
            assert!(expected.is_none() || is_sent(&headers(values), "sid"), "{values:?}");
        }
    }

    #[test]
    fn all_cookies_of_one_name_are_read_in_order() {
        let headers = headers(&[b"sid=a; other=x; sid=\xff; xsid=b", b"sid=; sid=\"c\""]);
        assert_eq!(read_all(&headers, "sid").collect::<Vec<_>>(), ["a", "\u{fffd}", "", "c"]);
        assert_eq!(read_all(&headers, "none").count(), 0);
    }

    #[test]
    fn a_huge_header_is_read_without_failure() {
        let mut junk = b"a=b; ".repeat(200_000);
        junk.extend_from_slice(b"sid=here");
        assert_eq!(read(&headers(&[&junk]), "sid").as_deref(), Some("here"));
    }

    #[test]
    fn the_attributes_are_those_of_a_credential() {
        assert_eq!(
            set("__Host-session", "abc", Duration::from_hours(168), true),
            "__Host-session=abc; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=604800"
        );
        assert_eq!(
            set("session_id", "abc", Duration::from_mins(1), false),
            "session_id=abc; HttpOnly; SameSite=Lax; Path=/; Max-Age=60"
        );
        assert_eq!(
            set_for_cross_site("__Host-state", "abc", Duration::from_mins(10)),
            "__Host-state=abc; HttpOnly; SameSite=None; Secure; Path=/; Max-Age=600"
        );
        assert_eq!(
            remove("__Host-session", true),
            "__Host-session=; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=0"
        );
        assert_eq!(set_for_browser_session("csrf", "x", false), "csrf=x; HttpOnly; SameSite=Lax; Path=/");
    }

    proptest! {
        #[test]
        fn any_text_can_be_read_back_and_adds_no_attribute(text in "\\PC{0,40}|[;=, \"%\r\n\u{0}a]{0,20}") {
            let header = set("sid", &text, Duration::from_secs(1), true);
            let line = header.to_str().unwrap();
            prop_assert_eq!(line.matches(';').count(), 5);
            let pair = line.split(';').next().unwrap();
            prop_assert_eq!(read(&headers(&[pair.as_bytes()]), "sid"), Some(text));
        }
    }
}
