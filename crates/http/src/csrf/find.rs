use std::convert::Infallible;

use axum::body::Bytes;
use futures_util::stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use percent_encoding::percent_decode;

use super::FIELD;
use super::token::Token;
use crate::ContentType;

/// A form type whose beginning can be searched for the field `_csrf`.
pub(super) enum Form {
    Urlencoded,
    Multipart { boundary: String },
}

impl Form {
    /// The form type in the headers; `None` for other bodies and for a multipart one without a boundary.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        match ContentType::of(headers) {
            ContentType::Form => Some(Self::Urlencoded),
            ContentType::Multipart => {
                let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
                Some(Self::Multipart { boundary: multer::parse_boundary(content_type).ok()? })
            }
            _ => None,
        }
    }

    /// The first `_csrf` of which all is there. `ended`: nothing comes after `head`. A value that cannot be a token is
    /// empty text: it is there, and it is wrong.
    pub(super) async fn find(&self, head: &Bytes, ended: bool) -> Option<String> {
        match self {
            Self::Urlencoded => in_pairs(head, ended),
            Self::Multipart { boundary } => in_parts(head.clone(), boundary.clone()).await,
        }
    }
}

fn in_pairs(head: &[u8], ended: bool) -> Option<String> {
    let mut pairs = head.split(|byte| *byte == b'&').peekable();
    while let Some(pair) = pairs.next() {
        if pairs.peek().is_none() && !ended {
            return None;
        }
        let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(equals);
        if is_field(name) {
            let value = value.get(1..).unwrap_or_default();
            return Some(plausible(percent_decode(value).take(Token::MASKED_CHARS + 1).collect()));
        }
    }
    None
}

/// Whether a name that may be percent-encoded is that of the field.
fn is_field(name: &[u8]) -> bool {
    name.len() <= 3 * FIELD.len() && percent_decode(name).eq(FIELD.bytes())
}

/// The beginning of a body ends in the middle of a part, which the parser reports as an error: then the field is not
/// complete yet.
async fn in_parts(head: Bytes, boundary: String) -> Option<String> {
    let mut parts = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(head)]), boundary);
    while let Some(mut part) = parts.next_field().await.ok()? {
        if part.name() != Some(FIELD) || part.file_name().is_some() {
            continue;
        }
        let mut value = Vec::new();
        while let Some(chunk) = part.chunk().await.ok()? {
            value.extend_from_slice(&chunk);
        }
        return Some(plausible(value));
    }
    None
}

fn plausible(value: Vec<u8>) -> String {
    if value.len() > Token::MASKED_CHARS {
        return String::new();
    }
    String::from_utf8(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pair_is_found_by_its_decoded_name_once_it_is_complete() {
        let cases: &[(&[u8], bool, Option<&str>)] = &[
            (b"", true, None),
            (b"a=b", true, None),
            (b"_csrf=t", true, Some("t")),
            (b"_csrf=t", false, None),
            (b"_csrf=t&", false, Some("t")),
            (b"a=b&_csrf=t&c=d", false, Some("t")),
            (b"%5Fcsrf=t", true, Some("t")),
            (b"%5f%63%73%72%66=t%2d", true, Some("t-")),
            (b"_csrf", true, Some("")),
            (b"_csrf=", true, Some("")),
            (b"_csrf=a=b", true, Some("a=b")),
            (b"_csrf=first&_csrf=second", true, Some("first")),
            (b"_csrf=\xff", true, Some("")),
            (b"_CSRF=t", true, None),
            (b"x_csrf=t", true, None),
            (b"_csrf[]=t", true, None),
            (b" _csrf=t", true, None),
            (b"a=_csrf=t", true, None),
            (b"a=b;_csrf=t", true, None),
        ];
        for (head, ended, expected) in cases {
            let found = Form::Urlencoded.find(&Bytes::from_static(head), *ended).await;
            assert_eq!(found.as_deref(), *expected, "{:?}", String::from_utf8_lossy(head));
        }
        let long = format!("_csrf={}", "a".repeat(100_000));
        assert_eq!(Form::Urlencoded.find(&long.into(), true).await.as_deref(), Some(""));
    }

    #[tokio::test]
    async fn a_part_is_found_by_its_name_once_it_is_complete() {
        let part = |name: &str, value: &str| {
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let file = "--x\r\nContent-Disposition: form-data; name=\"_csrf\"; filename=\"f\"\r\n\r\nt\r\n";
        let cases = [
            (String::new(), None),
            (part("_csrf", "t") + "--x--\r\n", Some("t")),
            (part("_csrf", "t") + "--x\r\nContent-Dispo", Some("t")),
            (part("a", "b") + &part("_csrf", "t") + "--x--", Some("t")),
            (part("_csrf", "t"), None),
            (part("_csrf", "t") + "--", None),
            (part("_csrf", "") + "--x--", Some("")),
            (part("_csrf", &"a".repeat(129)) + "--x--", Some("")),
            (part("_csrf", "one") + &part("_csrf", "two") + "--x--", Some("one")),
            (part("_csrf", "t").replace("--x", "--y") + "--y--", None),
            (part("a", "--x--") + "--x--", None),
            (file.to_owned() + "--x--", None),
            (part("_CSRF", "t") + "--x--", None),
            ("_csrf=t".to_owned(), None),
            ("--x--".to_owned() + &part("_csrf", "t"), None),
        ];
        let form = Form::Multipart { boundary: "x".to_owned() };
        for (head, expected) in cases {
            assert_eq!(form.find(&head.clone().into(), true).await.as_deref(), expected, "{head}");
        }
    }
}
