//! Reading JSON without building it: the members of a body as slices of its text, and the one spelling in which a
//! `json` field's value is stored.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How deep arrays and objects of a `json` field may nest.
pub(crate) const MAX_DEPTH: usize = 64;

/// The members of a JSON object in their order, each value as the text it was written as, so that no number loses a
/// digit before its field's type is known.
#[derive(Debug)]
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a str)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, value.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Why a JSON value cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unstorable {
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
    /// A string with a NUL character, or with half of a surrogate pair.
    Characters,
    /// A number that exceeds the range of a double.
    Number,
    /// An object with the same key twice.
    Repeated,
}

/// Writes valid JSON without the spaces between its tokens. Returns an error if the two engines would not both store
/// it.
///
/// Postgres refuses NUL characters, unpaired surrogates and extreme exponents, and drops the first of two equal keys;
/// SQLite stores all of them. These are refused here, so that the engines do not differ.
pub(crate) fn compact(json: &str) -> Result<String, Unstorable> {
    let mut out = String::with_capacity(json.len());
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut rest = json;
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'"' => {
                let token = &rest[..string_length(rest)];
                let text = spell(token, &mut out)?;
                if let Some(Open::Object { keys, at_key: true }) = open.last_mut()
                    && !keys.insert(text)
                {
                    return Err(Unstorable::Repeated);
                }
                rest = &rest[token.len()..];
                continue;
            }
            b'{' => push(&mut open, Open::Object { keys: HashSet::new(), at_key: true })?,
            b'[' => push(&mut open, Open::Array)?,
            b'}' | b']' => {
                open.pop();
                1
            }
            b',' | b':' => {
                if let Some(Open::Object { at_key, .. }) = open.last_mut() {
                    *at_key = first == b',';
                }
                1
            }
            b'-' | b'0'..=b'9' => {
                let length = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
                check_number(&rest[..length])?;
                length
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                rest = &rest[1..];
                continue;
            }
            _ => rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()).max(1),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Ok(out)
}

enum Open<'a> {
    Array,
    Object { keys: HashSet<Cow<'a, str>>, at_key: bool },
}

fn push<'a>(open: &mut Vec<Open<'a>>, next: Open<'a>) -> Result<usize, Unstorable> {
    if open.len() == MAX_DEPTH {
        return Err(Unstorable::Depth);
    }
    open.push(next);
    Ok(1)
}

/// The length of the string token at the start of `json`, its quotes included.
fn string_length(json: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    json.len()
}

/// Writes a string token with the fewest escapes that JSON needs, and returns its value.
fn spell<'a>(token: &'a str, out: &mut String) -> Result<Cow<'a, str>, Unstorable> {
    if !token.contains('\\') {
        out.push_str(token);
        return Ok(Cow::Borrowed(&token[1..token.len() - 1]));
    }
    let text: String = serde_json::from_str(token).map_err(|_| Unstorable::Characters)?;
    if text.contains('\0') {
        return Err(Unstorable::Characters);
    }
    out.push_str(&serde_json::Value::from(text.as_str()).to_string());
    Ok(Cow::Owned(text))
}

fn check_number(token: &str) -> Result<(), Unstorable> {
    // The exponent of a zero moves nothing for a double, and Postgres still refuses it.
    let exponent_fits = token
        .split_once(['e', 'E'])
        .is_none_or(|(_, exponent)| exponent.parse::<i32>().is_ok_and(|exponent| exponent.abs() <= 400));
    let finite = token.parse::<f64>().is_ok_and(f64::is_finite);
    if exponent_fits && finite && token.len() <= 1_000 { Ok(()) } else { Err(Unstorable::Number) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spaces_are_removed_and_every_digit_is_kept() {
        for (written, kept) in [
            ("null", "null"),
            (" [ 1 , 2.50 ,\n\"a b\" ] ", "[1,2.50,\"a b\"]"),
            ("{ \"a\" : { \"b\" : [ true, false ] } , \"c\" : -1e3 }", "{\"a\":{\"b\":[true,false]},\"c\":-1e3}"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            (r#""A\/é\n""#, r#""A/é\n""#),
            (r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#, r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#),
            (r#"["a","a"]"#, r#"["a","a"]"#),
            (r#"{"a":"a","b":"a"}"#, r#"{"a":"a","b":"a"}"#),
            (r#""\\\"""#, r#""\\\"""#),
        ] {
            assert_eq!(compact(written).as_deref(), Ok(kept), "{written}");
        }
    }

    #[test]
    fn values_that_one_engine_would_refuse_or_change_are_refused() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(compact(&deep(MAX_DEPTH)).is_ok());
        for (bad, why) in [
            (deep(MAX_DEPTH + 1).as_str(), Unstorable::Depth),
            (r#""a\u0000b""#, Unstorable::Characters),
            (r#"{"a\u0000":1}"#, Unstorable::Characters),
            (r#""\ud800""#, Unstorable::Characters),
            ("1e999", Unstorable::Number),
            ("0e999999999", Unstorable::Number),
            ("1e-9999", Unstorable::Number),
            (r#"{"a":1,"b":2,"a":3}"#, Unstorable::Repeated),
            (r#"{"a":1,"\u0061":3}"#, Unstorable::Repeated),
            (r#"[{"x":{"a":1,"a":3}}]"#, Unstorable::Repeated),
        ] {
            assert_eq!(compact(bad), Err(why), "{bad}");
        }
        assert_eq!(compact(r#""\\u0000""#).as_deref(), Ok(r#""\\u0000""#));
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            (-1e9..1e9_f64).prop_map(Into::into),
            "[^\0]*".prop_map(|text: String| text.into()),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map("[^\0]{0,6}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_value_stays_the_same(json in any_json()) {
            let pretty = serde_json::to_string_pretty(&json).unwrap();
            let kept = compact(&pretty).unwrap();
            prop_assert_eq!(&kept, &json.to_string());
        }
    }
}
