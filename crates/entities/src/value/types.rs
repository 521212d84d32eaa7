//! The types of fields with their bounds: which text a client may send, and the value that it is converted to.

use std::borrow::Cow;

use gatewright_base::{canonical_id, time};
use gatewright_db::Value;
use gatewright_db::json::{Json, MAX_DEPTH, Unstorable, Why};
use jiff::Timestamp;
use jiff::civil::Date;
use regex::Regex;

use super::decimal::{self, Decimal};
use super::error::{Fault, code};
use super::list::List;

/// The longest text, in bytes, that an indexed column takes. Postgres refuses index entries of a third of a page.
pub(crate) const INDEXED_BYTES: usize = 2_000;
/// The default maximum length of a `string`, in characters.
pub(crate) const STRING_LENGTH: usize = 1_000;
/// The default maximum length of a `text`, in characters.
pub(crate) const TEXT_LENGTH: usize = 262_144;
/// The beginning of the year 1, in UTC.
pub(crate) const FIRST_YEAR: Timestamp = Timestamp::constant(-62_135_596_800, 0);
/// The longest id of another record.
pub(crate) const LONGEST_ID: usize = 200;

/// A field's type, its bounds parsed.
#[derive(Debug, Clone)]
pub(crate) enum Type {
    Text(Text),
    Int(Bounds<i64>),
    Float(Bounds<f64>),
    Decimal(Bounds<Decimal>),
    Bool,
    Enum(Vec<String>),
    Date(Bounds<Date>),
    Timestamp(Bounds<Timestamp>),
    Uuid,
    Json,
    List(List),
    /// The id of a record elsewhere.
    Relation,
    /// A file: an object with its id.
    File,
}

/// The bounds of text: characters, a pattern, and how many bytes an index takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Text {
    pub(crate) min: Option<usize>,
    pub(crate) max: Option<usize>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) indexed: Option<usize>,
}

/// The least and the greatest value, both allowed.
#[derive(Debug, Clone)]
pub(crate) struct Bounds<T> {
    pub(crate) min: Option<T>,
    pub(crate) max: Option<T>,
}

impl Type {
    /// Whether it has integers outside of ±(2^53 − 1).
    pub(crate) fn is_wide(&self) -> bool {
        const EXACT: i64 = (1 << 53) - 1;
        let Self::Int(Bounds { min, max }) = self else { return false };
        let is_exact = |bound: &Option<i64>| bound.is_some_and(|bound| (-EXACT..=EXACT).contains(&bound));
        !(is_exact(min) && is_exact(max))
    }

    /// Reads one JSON value other than null.
    pub(crate) fn read(&self, json: &str) -> Result<Value, Fault> {
        match self {
            Self::Text(rules) => rules.check(&string(json, "text")?).map(Value::Text),
            Self::Int(bounds) => bounds.check(integer(json)?).map(Value::Int),
            Self::Float(bounds) => bounds.check(float(json)?).map(Value::Float),
            Self::Decimal(bounds) => bounds.check(exact(json)?).map(|d| Value::Text(d.into_string())),
            Self::Bool => match json {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err(wrong("true or false")),
            },
            Self::Enum(values) => choice(values, json),
            Self::Date(bounds) => bounds.check(day(json)?).map(|day| Value::Text(day.to_string())),
            Self::Timestamp(bounds) => bounds.check(instant(json)?).map(Value::Time),
            Self::Uuid => uuid(json).map(Value::Text),
            Self::Json => stored(json).map(Value::Json),
            Self::List(list) => list.read(json),
            Self::Relation => id(json).map(Value::Text),
            Self::File => file(json).map(Value::Json),
        }
    }
}

impl Text {
    /// Limits the text to what an index takes of it, if no other index takes less.
    pub(crate) fn index(&mut self, bytes: usize) {
        self.indexed = Some(self.indexed.map_or(bytes, |other| other.min(bytes)));
    }

    fn check(&self, text: &str) -> Result<String, Fault> {
        refuse_nul(text)?;
        let length = || text.chars().count();
        match (self.min, self.max) {
            (Some(min), _) if length() < min => {
                return Err(Fault::new(code::MIN, format!("must have at least {}", characters(min))));
            }
            (_, Some(max)) if length() > max => {
                return Err(Fault::new(code::MAX, format!("must have at most {}", characters(max))));
            }
            _ => {}
        }
        if let Some(bytes) = self.indexed.filter(|bytes| text.len() > *bytes) {
            let message = format!("must have at most {bytes} bytes, because the field is indexed");
            return Err(Fault::new(code::MAX, message));
        }
        match &self.pattern {
            Some(pattern) if !pattern.is_match(text) => Err(Fault::new(code::PATTERN, format!("must match {pattern}"))),
            _ => Ok(text.to_owned()),
        }
    }
}

impl<T: PartialOrd + std::fmt::Display> Bounds<T> {
    fn check(&self, value: T) -> Result<T, Fault> {
        match (&self.min, &self.max) {
            (Some(min), _) if value < *min => Err(Fault::new(code::MIN, format!("must be at least {min}"))),
            (_, Some(max)) if value > *max => Err(Fault::new(code::MAX, format!("must be at most {max}"))),
            _ => Ok(value),
        }
    }
}

impl<T> Default for Bounds<T> {
    fn default() -> Self {
        Self { min: None, max: None }
    }
}

fn characters(count: usize) -> String {
    format!("{count} character{}", if count == 1 { "" } else { "s" })
}

fn wrong(expected: &str) -> Fault {
    Fault::new(code::TYPE, format!("must be {expected}"))
}

/// The text of a JSON string.
fn string<'a>(json: &'a str, expected: &str) -> Result<Cow<'a, str>, Fault> {
    if !json.starts_with('"') {
        return Err(wrong(expected));
    }
    if !json.contains('\\') {
        return Ok(Cow::Borrowed(&json[1..json.len() - 1]));
    }
    let text: String = serde_json::from_str(json)
        .map_err(|_| Fault::new(code::CHARACTERS, "must not have half of a surrogate pair"))?;
    Ok(Cow::Owned(text))
}

fn refuse_nul(text: &str) -> Result<(), Fault> {
    if text.contains('\0') {
        return Err(Fault::new(code::CHARACTERS, "must not have the character U+0000"));
    }
    Ok(())
}

fn is_number(json: &str) -> bool {
    json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

pub(crate) fn integer(json: &str) -> Result<i64, Fault> {
    const EXPECTED: &str = "a whole number from -9223372036854775808 to 9223372036854775807";
    if let Ok(value) = json.parse() {
        return Ok(value);
    }
    // 1.0 and 1e3 are whole numbers too.
    let number = if is_number(json) { Decimal::parse(json).ok() } else { None };
    number.and_then(|number| number.as_str().parse().ok()).ok_or_else(|| wrong(EXPECTED))
}

pub(crate) fn float(json: &str) -> Result<f64, Fault> {
    let value: f64 =
        if is_number(json) { json.parse().map_err(|_| wrong("a number"))? } else { return Err(wrong("a number")) };
    if !value.is_finite() {
        return Err(wrong("a number that a 64-bit float can hold"));
    }
    // SQLite does not keep the sign of zero.
    Ok(if value == 0.0 { 0.0 } else { value })
}

pub(crate) fn exact(json: &str) -> Result<Decimal, Fault> {
    const EXPECTED: &str = "a decimal number, as a string or a number";
    let text = if is_number(json) { Cow::Borrowed(json) } else { string(json, EXPECTED)? };
    Decimal::parse(&text).map_err(|invalid| match invalid {
        decimal::Invalid::Form => wrong(EXPECTED),
        decimal::Invalid::Digits => wrong(&format!("a decimal number of at most {} digits", decimal::MAX_DIGITS)),
    })
}

fn choice(values: &[String], json: &str) -> Result<Value, Fault> {
    let text = string(json, "text")?;
    if values.iter().any(|value| *value == text) {
        return Ok(Value::Text(text.into_owned()));
    }
    Err(Fault::new(code::ENUM, format!("must be one of {}", values.join(", "))))
}

pub(crate) fn day(json: &str) -> Result<Date, Fault> {
    const EXPECTED: &str = "a date written YYYY-MM-DD, from 0001-01-01 to 9999-12-31";
    let text = string(json, EXPECTED)?;
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, b)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() });
    // Postgres has no year 0.
    let date = if shaped { text.parse::<Date>().ok() } else { None };
    date.filter(|date| date.year() > 0).ok_or_else(|| wrong(EXPECTED))
}

pub(crate) fn instant(json: &str) -> Result<Timestamp, Fault> {
    const EXPECTED: &str = "a timestamp with an offset (RFC 3339), such as 2026-01-31T12:00:00Z, from \
        0001-01-01T00:00:00Z to 9999-12-30T22:00:00Z";
    // The same as for dates: there is no year 0.
    let time = time::parse(&string(json, EXPECTED)?).filter(|time| *time >= FIRST_YEAR);
    time.ok_or_else(|| wrong(EXPECTED))
}

fn uuid(json: &str) -> Result<String, Fault> {
    const EXPECTED: &str = "a UUID with hyphens";
    let text = string(json, EXPECTED)?;
    let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
    let uuid = if hyphenated { uuid::Uuid::try_parse(&text).ok() } else { None };
    uuid.map(|uuid| uuid.to_string()).ok_or_else(|| wrong(EXPECTED))
}

fn stored(json: &str) -> Result<Json, Fault> {
    Json::read(json).map_err(|Unstorable { why, path }| {
        let fault = match why {
            Why::Depth => wrong(&format!("JSON nested at most {MAX_DEPTH} deep")),
            Why::Number(out) => {
                wrong(&format!("JSON whose numbers a 64-bit integer or a 64-bit float holds, and has {out}"))
            }
            Why::Repeated => wrong("JSON whose objects have each key once"),
            Why::Characters => {
                Fault::new(code::CHARACTERS, "must not have the character U+0000 or half of a surrogate pair")
            }
            _ => wrong("JSON"),
        };
        fault.inside(path)
    })
}

fn id(json: &str) -> Result<String, Fault> {
    const EXPECTED: &str = "the id of a record, as a string";
    let text = string(json, EXPECTED)?;
    if !is_id(&text) {
        return Err(wrong(EXPECTED));
    }
    Ok(canonical_id(&text).into_owned())
}

/// The id of a file in the only form of an object that has it. What else describes the file is ignored, so that an answer can
/// be sent back.
fn file(json: &str) -> Result<Json, Fault> {
    const EXPECTED: &str = "a file that was uploaded, as {\"id\": …}";
    #[derive(serde::Deserialize)]
    struct Sent {
        id: String,
    }
    let is_object = json.starts_with('{');
    let sent = is_object.then(|| serde_json::from_str::<Sent>(json).ok()).flatten().ok_or_else(|| wrong(EXPECTED))?;
    let id = uuid::Uuid::try_parse(&sent.id).map_err(|_| wrong(EXPECTED))?;
    Json::read(&format!("{{\"id\":\"{id}\"}}")).map_err(|_| wrong(EXPECTED))
}

/// Whether `text` could be a record's id: 1 to 200 bytes without spaces or control characters.
pub(crate) fn is_id(text: &str) -> bool {
    let visible = |c: char| !c.is_control() && !c.is_whitespace();
    // Ours are ASCII, of which no character needs a table.
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic()) || text.chars().all(visible);
    !text.is_empty() && text.len() <= LONGEST_ID && is_visible
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds<T>(min: T, max: T) -> Bounds<T> {
        Bounds { min: Some(min), max: Some(max) }
    }

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    fn time(text: &str) -> Timestamp {
        gatewright_base::time::parse(text).unwrap()
    }

    fn kept(kind: &Type, json: &str) -> Result<Value, &'static str> {
        kind.read(json).map_err(|fault| fault.code)
    }

    #[test]
    fn values_that_fit_are_kept_exactly() {
        let text = |text: &str| Value::Text(text.to_owned());
        let cases = [
            (Type::Text(Text::default()), r#""""#, text("")),
            (Type::Text(Text::default()), r#""\u00e9\"\\ \ud83d\ude00""#, text("é\"\\ 😀")),
            (Type::Text(Text { min: Some(2), max: Some(2), ..Text::default() }), r#""é😀""#, text("é😀")),
            (Type::Int(Bounds::default()), "-9223372036854775808", Value::Int(i64::MIN)),
            (Type::Int(Bounds::default()), "9223372036854775807", Value::Int(i64::MAX)),
            (Type::Int(Bounds::default()), "1.0", Value::Int(1)),
            (Type::Int(Bounds::default()), "12e2", Value::Int(1200)),
            (Type::Int(Bounds::default()), "-0", Value::Int(0)),
            (Type::Int(bounds(1, 3)), "3", Value::Int(3)),
            (Type::Float(Bounds::default()), "1e3", Value::Float(1000.0)),
            (Type::Float(Bounds::default()), "-0.0", Value::Float(0.0)),
            (Type::Float(Bounds::default()), "0.1", Value::Float(0.1)),
            (Type::Decimal(Bounds::default()), "9007199254740993.10", text("9007199254740993.1")),
            (Type::Decimal(Bounds::default()), r#""-0.50""#, text("-0.5")),
            (Type::Decimal(bounds(decimal("-1"), decimal("0.10"))), "0.1", text("0.1")),
            (Type::Bool, "true", Value::Bool(true)),
            (Type::Enum(vec!["draft".into(), "on".into()]), r#""draft""#, text("draft")),
            (Type::Date(Bounds::default()), r#""2024-02-29""#, text("2024-02-29")),
            (
                Type::Timestamp(Bounds::default()),
                r#""2026-01-02T03:04:05.1234567+02:00""#,
                Value::Time(time("2026-01-02T01:04:05.123456Z")),
            ),
            (Type::Uuid, r#""0191D2B3-0000-7000-8000-00000000000A""#, text("0191d2b3-0000-7000-8000-00000000000a")),
            (Type::Json, "[1, 2.50]", Value::Json(Json::read("[1,2.5]").unwrap())),
            (Type::Json, "\"text\"", Value::Json(Json::read("\"text\"").unwrap())),
            (Type::Relation, r#""any-ID_9""#, text("any-ID_9")),
            (Type::Relation, r#""0191D2B3-0000-7000-8000-00000000000A""#, text("0191d2b3-0000-7000-8000-00000000000a")),
        ];
        for (kind, json, expected) in cases {
            assert_eq!(kept(&kind, json), Ok(expected), "{kind:?} {json}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused_by_code() {
        let pattern =
            |pattern: &str| Type::Text(Text { pattern: Some(Regex::new(pattern).unwrap()), ..Text::default() });
        let long = format!("\"{}\"", "x".repeat(INDEXED_BYTES + 1));
        let cases = [
            (Type::Text(Text::default()), "1", code::TYPE),
            (Type::Text(Text::default()), "{}", code::TYPE),
            (Type::Text(Text::default()), r#""a\u0000b""#, code::CHARACTERS),
            (Type::Text(Text::default()), r#""\ud800""#, code::CHARACTERS),
            (Type::Text(Text { min: Some(2), ..Text::default() }), r#""é""#, code::MIN),
            (Type::Text(Text { max: Some(1), ..Text::default() }), r#""ab""#, code::MAX),
            (Type::Text(Text { indexed: Some(INDEXED_BYTES), ..Text::default() }), &long, code::MAX),
            (pattern("^[a-z]+$"), r#""abc\n""#, code::PATTERN),
            (pattern("^(a+)+$"), r#""aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!""#, code::PATTERN),
            (Type::Int(Bounds::default()), "9223372036854775808", code::TYPE),
            (Type::Int(Bounds::default()), "-9223372036854775809", code::TYPE),
            (Type::Int(Bounds::default()), "1.5", code::TYPE),
            (Type::Int(Bounds::default()), "1e99999999", code::TYPE),
            (Type::Timestamp(Bounds::default()), r#""0001-01-01T00:00:00+14:00""#, code::TYPE),
            (Type::Int(Bounds::default()), "\"1\"", code::TYPE),
            (Type::Int(Bounds::default()), "true", code::TYPE),
            (Type::Int(bounds(1, 3)), "0", code::MIN),
            (Type::Int(bounds(1, 3)), "4", code::MAX),
            (Type::Float(Bounds::default()), "1e400", code::TYPE),
            (Type::Float(Bounds::default()), "\"1.5\"", code::TYPE),
            (Type::Float(bounds(0.0, 1.0)), "1.1", code::MAX),
            (Type::Decimal(Bounds::default()), "\"1,5\"", code::TYPE),
            (Type::Decimal(Bounds::default()), "1e40", code::TYPE),
            (Type::Decimal(Bounds::default()), "true", code::TYPE),
            (Type::Decimal(bounds(decimal("9.9"), decimal("10"))), "\"9.8\"", code::MIN),
            (Type::Decimal(bounds(decimal("9.9"), decimal("10"))), "\"10.000000000000000000000000001\"", code::MAX),
            (Type::Bool, "1", code::TYPE),
            (Type::Bool, "\"true\"", code::TYPE),
            (Type::Enum(vec!["draft".into()]), "\"Draft\"", code::ENUM),
            (Type::Enum(vec!["draft".into()]), "1", code::TYPE),
            (Type::Date(Bounds::default()), "\"2023-02-29\"", code::TYPE),
            (Type::Date(Bounds::default()), "\"0000-01-01\"", code::TYPE),
            (Type::Date(Bounds::default()), "\"2023-2-3\"", code::TYPE),
            (Type::Date(Bounds::default()), "\"2023-01-01T00:00:00Z\"", code::TYPE),
            (Type::Timestamp(Bounds::default()), "\"2026-01-02T03:04:05\"", code::TYPE),
            (Type::Timestamp(Bounds::default()), "1700000000", code::TYPE),
            (Type::Uuid, "\"0191d2b300007000800000000000000a\"", code::TYPE),
            (Type::Uuid, "\"{0191d2b3-0000-7000-8000-00000000000a}\"", code::TYPE),
            (Type::Json, r#"{"a":1,"a":2}"#, code::TYPE),
            (Type::Relation, "\"\"", code::TYPE),
            (Type::Relation, "\"a b\"", code::TYPE),
            (Type::Relation, "7", code::TYPE),
        ];
        for (kind, json, expected) in cases {
            assert_eq!(kept(&kind, json), Err(expected), "{kind:?} {json}");
        }
    }
}
