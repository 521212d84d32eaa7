use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The shape of a request body, as its `Content-Type` names it.
///
/// Extractors and the cross-site guard both use this type, so that they cannot classify a body differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// `application/json`.
    Json,
    /// `application/merge-patch+json` (RFC 7396).
    MergePatch,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
    /// `text/plain`.
    PlainText,
    /// No header, or an empty one.
    Missing,
    /// A header that is not a media type, or more than one.
    Malformed,
    /// Another media type, also one that is written as JSON: its members have a meaning that nothing here knows.
    Other,
}

impl ContentType {
    /// Reads the header. Parameters and case are ignored.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(CONTENT_TYPE).into_iter();
        let Some(value) = values.next() else {
            return Self::Missing;
        };
        if values.next().is_some() {
            return Self::Malformed;
        }
        let Ok(text) = value.to_str() else {
            return Self::Malformed;
        };
        let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "" => Self::Missing,
            "application/json" => Self::Json,
            "application/merge-patch+json" => Self::MergePatch,
            "application/x-www-form-urlencoded" => Self::Form,
            "multipart/form-data" => Self::Multipart,
            "text/plain" => Self::PlainText,
            other if !is_media_type(other) => Self::Malformed,
            _ => Self::Other,
        }
    }

    /// Whether a page of another site can send it without a preflight: the three form types, and a missing type.
    pub fn needs_no_preflight(self) -> bool {
        !matches!(self, Self::Json | Self::MergePatch | Self::Other)
    }

    /// Whether a browser's form sent it.
    pub fn is_form(self) -> bool {
        matches!(self, Self::Form | Self::Multipart)
    }
}

/// `type/subtype` of token characters (RFC 9110, section 8.3.1).
fn is_media_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    text.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_essence_decides() {
        let cases: &[(&[&[u8]], ContentType)] = &[
            (&[], ContentType::Missing),
            (&[b""], ContentType::Missing),
            (&[b" ; charset=utf-8"], ContentType::Missing),
            (&[b"application/json"], ContentType::Json),
            (&[b"Application/JSON; charset=utf-8"], ContentType::Json),
            (&[b"application/merge-patch+json"], ContentType::MergePatch),
            (&[b"Application/Merge-Patch+JSON;charset=utf-8"], ContentType::MergePatch),
            (&[b"application/json-patch+json"], ContentType::Other),
            (&[b"application/problem+json"], ContentType::Other),
            (&[b"application/vnd.api+json"], ContentType::Other),
            (&[b"application/x-www-form-urlencoded"], ContentType::Form),
            (&[b"application/x-www-form-urlencoded;x=application/json"], ContentType::Form),
            (&[b"multipart/form-data; boundary=x"], ContentType::Multipart),
            (&[b"text/plain"], ContentType::PlainText),
            (&[b"text/plain; application/json"], ContentType::PlainText),
            (&[b"text/plain, application/json"], ContentType::Malformed),
            (&[b"application/json", b"text/plain"], ContentType::Malformed),
            (&[b"json"], ContentType::Malformed),
            (&[b"application/"], ContentType::Malformed),
            (&[b"application/ json"], ContentType::Malformed),
            (&[b"\xff/\xfe"], ContentType::Malformed),
            (&[b"image/x+json"], ContentType::Other),
            (&[b"application/xml"], ContentType::Other),
        ];
        for (values, expected) in cases {
            let headers: HeaderMap =
                values.iter().map(|value| (CONTENT_TYPE, HeaderValue::from_bytes(value).unwrap())).collect();
            assert_eq!(ContentType::of(&headers), *expected, "{values:?}");
        }
    }
}
