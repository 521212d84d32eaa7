use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Whether the request has a credential that no browser sends by itself: one well-formed `Authorization: Bearer`, or
/// one `X-API-Key`.
///
/// A page of another site can make a browser send cookies, but neither of these headers without a preflight, which only
/// a server that trusts the page answers. So a request with such a header was not forged. Its cookies, and the validity
/// of the credential, do not matter. A malformed header does not count: the request then needs the token.
pub(super) fn is_explicit(headers: &HeaderMap) -> bool {
    only(headers, &AUTHORIZATION).is_some_and(is_bearer) || only(headers, &API_KEY).is_some_and(is_key)
}

/// The header's value if there is exactly one.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.as_bytes())
}

/// `Bearer`, spaces, and one token (RFC 6750, section 2.1).
fn is_bearer(value: &[u8]) -> bool {
    let Some((scheme, rest)) = value.split_at_checked(b"Bearer".len()) else {
        return false;
    };
    let token = rest.trim_ascii();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    scheme.eq_ignore_ascii_case(b"Bearer") && rest.starts_with(b" ") && !token.is_empty() && token.iter().all(allowed)
}

fn is_key(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    !value.is_empty() && value.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_well_formed_header_of_either_kind_counts() {
        type Line = (&'static str, &'static [u8]);
        let cases: &[(&[Line], bool)] = &[
            (&[], false),
            (&[("authorization", b"Bearer eyJh.eyJz.c2ln")], true),
            (&[("authorization", b"bearer svc_0123")], true),
            (&[("authorization", b"BEARER  a=")], true),
            (&[("x-api-key", b"k-123!")], true),
            (&[("authorization", b"Bearer")], false),
            (&[("authorization", b"Bearer ")], false),
            (&[("authorization", b"Bearer\ta")], false),
            (&[("authorization", b"Bearera")], false),
            (&[("authorization", b"Bearer a b")], false),
            (&[("authorization", b"Bearer a,b")], false),
            (&[("authorization", b"Bearer a, Bearer b")], false),
            (&[("authorization", b"Bearer \xff")], false),
            (&[("authorization", b"Basic dXNlcjpwYXNz")], false),
            (&[("authorization", b"Negotiate Bearer")], false),
            (&[("authorization", b"Basic, Bearer a")], false),
            (&[("authorization", b"")], false),
            (&[("authorization", b"Bearer a"), ("authorization", b"Bearer b")], false),
            (&[("authorization", b"Basic a"), ("authorization", b"Bearer b")], false),
            (&[("x-api-key", b"")], false),
            (&[("x-api-key", b"  ")], false),
            (&[("x-api-key", b"a b")], false),
            (&[("x-api-key", b"\xff")], false),
            (&[("x-api-key", b"a"), ("x-api-key", b"b")], false),
            (&[("authorization", b"Basic a"), ("x-api-key", b"b")], true),
            (&[("proxy-authorization", b"Bearer a")], false),
            (&[("cookie", b"authorization=Bearer a")], false),
        ];
        for (lines, expected) in cases {
            let headers: HeaderMap = lines
                .iter()
                .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value).unwrap()))
                .collect();
            assert_eq!(is_explicit(&headers), *expected, "{headers:?}");
        }
    }
}
