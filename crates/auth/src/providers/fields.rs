//! Parses the answers of providers. Every value is untrusted text.

use serde_json::{Map, Value};
use url::Url;

use super::ProviderError;

/// A JSON object that describes a user.
pub(super) type Fields = Map<String, Value>;

/// Most characters of an identifier (OpenID Connect Core, section 2), and of an address, a name or a scope.
const MAX_TEXT: usize = 255;
/// Most bytes of a picture's address.
const MAX_URL: usize = 2048;

/// The value at a place: a key or, if there is none with this name, the keys on the way to it with dots in between.
/// A number counts in a list: `images.0.url`.
fn at<'f>(fields: &'f Fields, place: &str) -> Option<&'f Value> {
    let within = |value: &'f Value, key: &str| match value {
        Value::Object(fields) => fields.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    };
    fields.get(place).or_else(|| {
        let (first, rest) = place.split_once('.')?;
        rest.split('.').try_fold(fields.get(first)?, within)
    })
}

/// A text that is not empty, not blank and not too long.
pub(super) fn text(fields: &Fields, key: &str) -> Option<String> {
    let text = at(fields, key)?.as_str()?.trim();
    (!text.is_empty() && text.chars().count() <= MAX_TEXT).then(|| text.to_owned())
}

/// An identifier: visible text, unchanged, or a whole number.
pub(super) fn identifier(fields: &Fields, key: &str) -> Option<String> {
    let text = match at(fields, key)? {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
        _ => return None,
    };
    let sound = !text.is_empty() && text.chars().count() <= MAX_TEXT && !text.chars().any(char::is_control);
    sound.then_some(text)
}

/// JSON `true`, or the text `true`, which some providers write; any other present value is false.
pub(super) fn flag(fields: &Fields, key: &str) -> Option<bool> {
    at(fields, key).map(|value| matches!(value, Value::Bool(true)) || value.as_str() == Some("true"))
}

/// A picture's address: the value at a place, or a URL with places in braces. Others than https ones would be mixed content, or
/// worse (`javascript:`).
pub(super) fn picture(fields: &Fields, key: &str) -> Option<String> {
    let url = if key.contains('{') { expanded(fields, key)? } else { at(fields, key)?.as_str()?.to_owned() };
    let url = Url::parse(&url).ok()?;
    (url.scheme() == "https" && url.as_str().len() <= MAX_URL).then(|| url.into())
}

/// A URL whose places in braces are replaced by identifiers, so that none of them adds a part to the URL. `None` if one is
/// not there.
fn expanded(fields: &Fields, template: &str) -> Option<String> {
    let mut parts = template.split('{');
    let mut url = parts.next()?.to_owned();
    for part in parts {
        let (place, rest) = part.split_once('}')?;
        let id = identifier(fields, place)?;
        let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        is_plain.then(|| url.extend([&*id, rest]))?;
    }
    Some(url)
}

/// The error for a description without an identifier.
pub(super) fn no_user_identifier() -> ProviderError {
    ProviderError::Malformed("it has no identifier of the user")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::from_iter([("key".to_owned(), value)])
    }

    #[test]
    fn only_true_is_true() {
        for (value, expected) in [
            (json!(true), true),
            (json!("true"), true),
            (json!(false), false),
            (json!("false"), false),
            (json!("True"), false),
            (json!("1"), false),
            (json!(1), false),
            (json!(null), false),
            (json!(["true"]), false),
        ] {
            assert_eq!(flag(&fields(value.clone()), "key"), Some(expected), "{value}");
        }
        assert_eq!(flag(&Fields::new(), "key"), None);
    }

    #[test]
    fn an_identifier_is_stored_unchanged_or_refused() {
        for (value, expected) in [
            (json!("110169484474386276334"), Some("110169484474386276334")),
            (json!(" a "), Some(" a ")),
            (json!(583_231), Some("583231")),
            (json!(u64::MAX), Some("18446744073709551615")),
            (json!(""), None),
            (json!("a\nb"), None),
            (json!("\0"), None),
            (json!("a".repeat(256)), None),
            (json!(1.5), None),
            (json!(true), None),
            (json!(null), None),
            (json!(["a"]), None),
        ] {
            assert_eq!(identifier(&fields(value.clone()), "key").as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn pictures_are_https() {
        let long = format!("https://example.com/{}", "a".repeat(MAX_URL));
        for (value, kept) in [
            (json!("https://lh3.googleusercontent.com/a/x=s96-c"), true),
            (json!("http://example.com/x.png"), false),
            (json!("javascript:alert(1)"), false),
            (json!("data:image/svg+xml,<svg onload=alert(1)>"), false),
            (json!("//example.com/x.png"), false),
            (json!(long), false),
            (json!(7), false),
        ] {
            assert_eq!(picture(&fields(value.clone()), "key").is_some(), kept, "{value}");
        }
    }

    #[test]
    fn blank_text_counts_as_absent() {
        for (value, expected) in [
            (json!(" Ann "), Some("Ann")),
            (json!("  "), None),
            (json!(""), None),
            (json!(5), None),
            (json!(null), None),
        ] {
            assert_eq!(text(&fields(value.clone()), "key").as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_place_is_a_key_or_the_way_to_one() {
        let answer = json!({
            "id": 1, "data": { "id": "2", "verified": true }, "images": [{ "url": "https://i.example/a" }], "a.b": "literal",
            "a": { "b": "nested" }, "text": "no object",
        });
        let fields = answer.as_object().unwrap();
        for (place, expected) in [
            ("id", Some("1")),
            ("data.id", Some("2")),
            ("images.0.url", Some("https://i.example/a")),
            ("a.b", Some("literal")),
            ("images.1.url", None),
            ("images.url", None),
            ("images.-1.url", None),
            ("text.id", None),
            ("data", None),
            ("data.", None),
            (".id", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(identifier(fields, place).as_deref(), expected, "{place}");
        }
        assert_eq!((flag(fields, "data.verified"), flag(fields, "data.absent")), (Some(true), None));
    }

    #[test]
    fn an_identifier_adds_no_part_to_the_address_of_a_picture() {
        const TEMPLATE: &str = "https://cdn.example/avatars/{id}/{avatar}.png";
        for (id, avatar, expected) in [
            (json!("80351"), json!("a_83422"), Some("https://cdn.example/avatars/80351/a_83422.png")),
            (json!(80351), json!("83422"), Some("https://cdn.example/avatars/80351/83422.png")),
            (json!("80351"), json!(null), None),
            (json!("80351"), json!("../../x"), None),
            (json!("80351"), json!("a?b"), None),
            (json!("80351"), json!("a#b"), None),
            (json!("80351"), json!("%2e%2e"), None),
            (json!("@evil.example/"), json!("a"), None),
        ] {
            let answer = json!({ "id": id, "avatar": avatar });
            assert_eq!(picture(answer.as_object().unwrap(), TEMPLATE).as_deref(), expected, "{answer}");
        }
        assert_eq!(picture(&Fields::new(), "https://cdn.example/{"), None);
    }
}
