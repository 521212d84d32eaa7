//! JSON that a database holds: as it was written, or as Postgres spells it.

use std::borrow::Cow;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
use std::collections::BTreeMap;
#[cfg(feature = "sqlite")]
use std::collections::HashSet;

use serde_json::value::RawValue;

use super::number::Exact;
use super::{Number, Unstorable, reader};

/// A longer number that is not in canonical form gets an exponent.
const LONG: usize = 40;

/// Fails if a stored value is not JSON that could be written today, with its numbers in canonical form.
pub fn check(stored: &str) -> Result<(), Unstorable> {
    reader::is_canonical(stored)
}

/// A document of Postgres, with the digits of large and small numbers as an exponent again: `jsonb` spells `1e-300` with
/// 302 digits. Values stay the same, and all other text too.
pub(crate) fn respelled(document: &str) -> Cow<'_, str> {
    let bytes = document.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at += string_length(&bytes[at..]),
            b'-' | b'0'..=b'9' => {
                let length =
                    bytes[at..].iter().take_while(|byte| byte.is_ascii_digit() || b"-.".contains(byte)).count();
                let token = &document[at..at + length];
                if let Some(short) = shorter(token) {
                    out.push_str(&document[copied..at]);
                    out.push_str(&short);
                    copied = at + length;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(document);
    }
    out.push_str(&document[copied..]);
    Cow::Owned(out)
}

/// The shorter spelling of a number that Postgres has spelled without an exponent.
fn shorter(token: &str) -> Option<String> {
    let unsigned = token.strip_prefix('-').unwrap_or(token);
    let whole = unsigned.find('.').unwrap_or(unsigned.len());
    if (whole < 19 && !unsigned.starts_with("0.0000")) || token.parse::<i64>().is_ok() {
        return None;
    }
    let exact = Exact::of(token)?;
    let double: f64 = token.parse().ok()?;
    let form = if exact.is_zero() { "0".to_owned() } else { Number::Float(double).to_string() };
    if double.is_finite() && Exact::of(&form).as_ref() == Some(&exact) {
        return (form != token).then_some(form);
    }
    (token.len() > LONG).then(|| exact.to_string()).filter(|form| form.len() < token.len())
}

/// The length of the string token at the start of JSON, its quotes included.
fn string_length(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// The number that a JSON text stands for in a comparison. `None` if it is not a number.
pub(crate) fn nearest(text: &str) -> Option<Number> {
    Number::nearest(text)
}

/// Whether an array, as JSON text, has this number. Text that is not an array has none.
pub(crate) fn has_number(array: &str, number: Number) -> bool {
    let elements: Vec<&RawValue> = serde_json::from_str(array).unwrap_or_default();
    elements.iter().any(|element| Number::nearest(element.get()) == Some(number))
}

/// The items of an array, as JSON text, each once and as text: a text itself, a number in its own spelling. Text that is not
/// an array has none.
#[cfg(feature = "sqlite")]
pub(crate) fn distinct(array: &str) -> String {
    let items: Vec<&RawValue> = serde_json::from_str(array).unwrap_or_default();
    let mut seen = HashSet::with_capacity(items.len());
    let text = |item: &RawValue| serde_json::from_str(item.get()).unwrap_or_else(|_| item.get().to_owned());
    let distinct = items.into_iter().map(text).filter(|item: &String| seen.insert(item.clone()));
    serde_json::Value::from(distinct.collect::<Vec<String>>()).to_string()
}

/// A decimal number in a form that is the same for all of its spellings. `None` if it is not one.
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub(crate) fn exact(text: &str) -> Option<String> {
    Exact::of(text).map(|exact| exact.to_string())
}

/// A form of a document that is the same for each spelling that Postgres takes for one document: members sorted, the last
/// of repeated ones, numbers by their exact values. `None` if it is not JSON.
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub(crate) fn comparable(document: &str) -> Option<Vec<u8>> {
    fn append(value: &RawValue, out: &mut Vec<u8>) -> Option<()> {
        let text = value.get();
        match text.as_bytes().first()? {
            b'{' => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
                out.push(b'{');
                for (key, value) in members {
                    out.extend_from_slice(serde_json::Value::from(key).to_string().as_bytes());
                    append(value, out)?;
                }
                out.push(b'}');
            }
            b'[' => {
                let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                out.push(b'[');
                for element in elements {
                    append(element, out)?;
                    out.push(b',');
                }
                out.push(b']');
            }
            b'"' => out.extend_from_slice(serde_json::from_str::<serde_json::Value>(text).ok()?.to_string().as_bytes()),
            b'-' | b'0'..=b'9' => out.extend_from_slice(Exact::of(text)?.to_string().as_bytes()),
            _ => out.extend_from_slice(text.as_bytes()),
        }
        Some(())
    }
    let mut out = Vec::with_capacity(document.len());
    append(serde_json::from_str(document).ok()?, &mut out)?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_postgres_get_their_exponent_back() {
        let zeros = |count: usize| "0".repeat(count);
        for (spelled, expected) in [
            ("[1, 1.50, -0.5, \"0.00000000000000000000000000001\"]".to_owned(), None),
            ("{\"a\\\"0.00001\": 9223372036854775807}".to_owned(), None),
            (format!("[0.{}1, -1]", zeros(299)), Some("[1e-300, -1]")),
            (format!("{{\"a\": -1{}, \"b\": 0.{}5}}", zeros(300), zeros(323)), Some("{\"a\": -1e+300, \"b\": 5e-324}")),
            ("18446744073709552000".to_owned(), Some("1.8446744073709552e+19")),
            // Older values keep their value; only their length changes.
            ("18446744073709551616".to_owned(), None),
            ("123456789012345678901234567890".to_owned(), None),
            (format!("0.{}12", zeros(400)), Some("1.2e-401")),
            (format!("0.{}", zeros(400)), Some("0")),
        ] {
            assert_eq!(respelled(&spelled), expected.unwrap_or(&spelled), "{spelled}");
            assert_eq!(matches!(respelled(&spelled), Cow::Borrowed(_)), expected.is_none(), "{spelled}");
        }
    }

    #[test]
    fn an_array_has_a_number_in_any_spelling() {
        let array = r#"[1.0, "2", -0, 9007199254740993, 1e300, [7], null, 0.1]"#;
        for (text, is_in) in
            [("1", true), ("2", false), ("0", true), ("9007199254740992", false), ("1e300", true), ("7", false)]
        {
            assert_eq!(has_number(array, Number::read(text).unwrap()), is_in, "{text}");
        }
        assert!(!has_number("{\"a\":1}", Number::Int(1)) && !has_number("1", Number::Int(1)));
    }

    #[cfg(all(feature = "postgres", feature = "sqlite"))]
    #[test]
    fn spellings_of_one_document_compare_equal() {
        for (one, other) in [
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("[1.50]", "[ 1.5 ]"),
            ("1e-400", &format!("0.{}1", "0".repeat(399))),
            ("{\"b\":1,\"a\":1e2}", "{\"a\": 100, \"b\": 1.0}"),
            ("{\"a\":1,\"a\":2}", "{\"a\": 2}"),
            ("\"\\u00e9\"", "\"é\""),
        ] {
            assert_eq!(comparable(one).unwrap(), comparable(other).unwrap(), "{one} {other}");
        }
        for (one, other) in [("1", "2"), ("9007199254740993", "9007199254740992"), ("[1,2]", "[12]"), ("\"1\"", "1")] {
            assert_ne!(comparable(one).unwrap(), comparable(other).unwrap(), "{one} {other}");
        }
    }
}
