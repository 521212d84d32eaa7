use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

/// The token of `Authorization: Bearer …` (RFC 6750, 2.1; the scheme's name in any case). `None` if there is none, or
/// if there are several `Authorization` headers, because servers differ in which one they use.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).into_iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    token_of(value)
}

/// The tokens of all `Authorization: Bearer …` headers, of which there should be one.
pub(super) fn bearer_tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.get_all(AUTHORIZATION).into_iter().filter_map(token_of)
}

fn token_of(value: &HeaderValue) -> Option<&str> {
    let bytes = value.as_bytes();
    let is_bearer = bytes.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    let token = value.to_str().ok().filter(|_| is_bearer)?.get(7..)?.trim_matches(' ');
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_what_follows_the_word_bearer() {
        let cases: &[(&[&[u8]], Option<&str>)] = &[
            (&[], None),
            (&[b"Bearer abc"], Some("abc")),
            (&[b"bearer abc"], Some("abc")),
            (&[b"BEARER  abc "], Some("abc")),
            (&[b"Bearer a b"], Some("a b")),
            (&[b"Bearer"], None),
            (&[b"Bearer "], None),
            (&[b"Bearerabc"], None),
            (&[b"Basic YTpi"], None),
            (&[b"Bearer abc", b"Bearer abc"], None),
            (&[b"Basic YTpi", b"Bearer abc"], None),
            (&[b"Bearer \xff"], None),
        ];
        for (values, expected) in cases {
            let headers: HeaderMap =
                values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_bytes(value).unwrap())).collect();
            assert_eq!(bearer(&headers), *expected, "{values:?}");
        }
    }
}
