use gatewright_base::{JsonCase, is_upper_uuid, time};
use gatewright_db::{RowRef, ValueRef};
use jiff::civil::Date;
use serde::de::IgnoredAny;

use crate::declare::Kind;
use crate::files::FileAddress;
use crate::value::decimal::Decimal;
use crate::value::types::FIRST_YEAR;

/// What a column of timestamps holds.
const TIMESTAMP: &str = "a timestamp from 0001-01-01T00:00:00Z to 9999-12-30T22:00:00Z";

/// What the values of a column are in a file of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Text.
    Text,
    /// A number, a time or a truth value.
    Plain,
    /// Any JSON.
    Json,
}

/// How a column's values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// A JSON string: text, words and ids of other records.
    Text,
    /// The id of the record itself.
    Id,
    Uuid,
    Decimal,
    Int,
    Float,
    Bool,
    Time,
    Date,
    /// Copied unchanged.
    Json,
    /// The same, an array. An absent one is empty.
    List,
}

impl Codec {
    pub(super) fn of(kind: Kind) -> Self {
        match kind {
            Kind::String | Kind::Text | Kind::Enum | Kind::Relation => Self::Text,
            Kind::Uuid => Self::Uuid,
            Kind::Decimal => Self::Decimal,
            Kind::Int => Self::Int,
            Kind::Float => Self::Float,
            Kind::Bool => Self::Bool,
            Kind::Date => Self::Date,
            Kind::Timestamp => Self::Time,
            Kind::Json | Kind::File => Self::Json,
            Kind::List => Self::List,
        }
    }

    /// Writes a value. The error says what value was expected.
    pub(super) fn append(self, value: &ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match (self, value) {
            (Self::List, ValueRef::Null) => out.extend_from_slice(b"[]"),
            (_, ValueRef::Null) => out.extend_from_slice(b"null"),
            (Self::Text, ValueRef::Text(text)) => string(out, text),
            (Self::Id, ValueRef::Text(text)) if !is_upper_uuid(text.as_bytes()) => string(out, text),
            (Self::Uuid, ValueRef::Text(text)) if is_uuid(text.as_bytes()) => plain(out, text),
            (Self::Decimal, ValueRef::Text(text)) if Decimal::parse(text).is_ok() => plain(out, text),
            (Self::Int, ValueRef::Int(value)) => json(out, value),
            // JSON has no infinity.
            (Self::Float, ValueRef::Float(value)) if value.is_finite() => json(out, value),
            (Self::Bool, ValueRef::Bool(true) | ValueRef::Int(1)) => out.extend_from_slice(b"true"),
            (Self::Bool, ValueRef::Bool(false) | ValueRef::Int(0)) => out.extend_from_slice(b"false"),
            (Self::Time, ValueRef::Time(micros)) if is_time(*micros) => time(out, *micros),
            (Self::Time, ValueRef::Text(text)) => match time::stored(text) {
                Some(moment) if is_time(moment.as_microsecond()) => time(out, moment.as_microsecond()),
                _ => return Err(TIMESTAMP),
            },
            (Self::Date, ValueRef::Date(day)) if time::is_date(*day) => json(out, &*time::format_date(*day)),
            (Self::Date, ValueRef::Text(text)) if is_date(text) => plain(out, text),
            (Self::Json, ValueRef::Text(text)) if is_json(text) => splice(out, text),
            (Self::List, ValueRef::Text(text)) if text.starts_with('[') && is_json(text) => splice(out, text),
            (Self::Text, _) => return Err("text"),
            (Self::Id, _) => return Err("an id"),
            (Self::Uuid, _) => return Err("a UUID in lower case"),
            (Self::Decimal, _) => return Err("a decimal number"),
            (Self::Int, _) => return Err("an integer"),
            (Self::Float, _) => return Err("a finite float"),
            (Self::Bool, _) => return Err("a boolean"),
            (Self::Time, _) => return Err(TIMESTAMP),
            (Self::Date, _) => return Err("a date of the years 1 to 9999"),
            (Self::Json, _) => return Err("JSON"),
            (Self::List, _) => return Err("a JSON array"),
        }
        Ok(())
    }
}

/// One member of the object: `,"createdAt":` and its value.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    lead: Vec<u8>,
    codec: Codec,
    /// How the column's files are written, if it has files.
    files: Option<FileAddress>,
}

impl Column {
    pub(super) fn new(name: &str, codec: Codec, case: JsonCase, first: bool) -> Self {
        let key = serde_json::Value::from(case.spell(name));
        let lead = format!("{}{key}:", if first { '{' } else { ',' });
        Self { name: name.to_owned(), lead: lead.into_bytes(), codec, files: None }
    }

    /// The same column with files.
    pub(super) fn with_files(self, files: Option<FileAddress>) -> Self {
        Self { files, ..self }
    }

    /// The key on the wire.
    pub(super) fn key(&self) -> String {
        let key = self.lead.get(1..self.lead.len() - 1).unwrap_or_default();
        serde_json::from_slice(key).unwrap_or_else(|_| self.name.clone())
    }

    /// What its values are in a file of cells.
    pub(super) fn cell(&self) -> Cell {
        match self.codec {
            Codec::Text | Codec::Id | Codec::Uuid => Cell::Text,
            Codec::Json | Codec::List => Cell::Json,
            Codec::Decimal | Codec::Int | Codec::Float | Codec::Bool | Codec::Time | Codec::Date => Cell::Plain,
        }
    }

    /// Writes the value alone. The error says what value was expected in the column.
    pub(super) fn value(&self, value: &ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match (&self.files, value) {
            (Some(files), ValueRef::Text(text)) => {
                if files.write(text, out) {
                    Ok(())
                } else {
                    Err("files")
                }
            }
            _ => self.codec.append(value, out),
        }
    }

    /// Writes key and value, if the value is a text in the driver's buffer whose bytes can be copied unchanged. If not,
    /// nothing is written, and [`append`](Self::append) does it. One pass over the bytes checks both that the text is
    /// UTF-8 and that no byte needs an escape.
    pub(super) fn copy(&self, row: &RowRef<'_>, index: usize, out: &mut Vec<u8>) -> bool {
        let fits: fn(&[u8]) -> bool = match self.codec {
            Codec::Text => is_printable_ascii,
            Codec::Id => |text| is_printable_ascii(text) && !is_upper_uuid(text),
            Codec::Uuid => is_uuid,
            Codec::Decimal => is_plain_number,
            Codec::Date => is_common_date,
            Codec::Time => is_canonical,
            Codec::Int | Codec::Float | Codec::Bool | Codec::Json | Codec::List => return false,
        };
        let Some(text) = row.text_bytes(index).filter(|text| fits(text)) else { return false };
        out.reserve(self.lead.len() + text.len() + 2);
        out.extend_from_slice(&self.lead);
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
        true
    }

    /// Writes key and value. The error says what value was expected in the column.
    pub(super) fn append(&self, value: &ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        out.extend_from_slice(&self.lead);
        self.value(value, out)
    }
}

fn json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("numbers and text are written to memory");
}

/// Whether a text is ASCII and no byte needs an escape.
fn is_printable_ascii(text: &[u8]) -> bool {
    let fits = |byte: &u8| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~');
    let (words, rest) = text.as_chunks::<8>();
    let unfit = words.iter().fold(0, |found, word| found | unfit_bytes(u64::from_le_bytes(*word)));
    unfit == 0 && rest.iter().all(fits)
}

/// Zero if each of the eight bytes is printable ASCII that needs no escape. The bytes are compared at once by arithmetic whose
/// carries and borrows cross into another byte only from a byte that does not fit itself.
const fn unfit_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    const fn zero_bytes(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word
    }
    let control = word.wrapping_sub(0x20 * ONES);
    let delete = word.wrapping_add(ONES);
    let quote = zero_bytes(word ^ (0x22 * ONES));
    let backslash = zero_bytes(word ^ (0x5c * ONES));
    (word | control | delete | quote | backslash) & HIGH
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Unlike above, bytes that are not ASCII are allowed.
    let needs_escape = |byte: u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    if text.bytes().fold(false, |found, byte| found | needs_escape(byte)) {
        json(out, text);
    } else {
        plain(out, text);
    }
}

/// Text in which nothing has to be escaped.
fn plain(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn time(out: &mut Vec<u8>, micros: i64) {
    plain(out, time::write(&mut [0; time::LENGTH], micros));
}

/// Whether text has the one form in which SQLite columns hold timestamps, and is one that needs no calendar to be valid: of
/// the years before 9999, and before the 29th of its month. Reading each would cost more than the rest of the row.
fn is_canonical(text: &[u8]) -> bool {
    // The greatest character at each place.
    const FORM: &[u8; time::LENGTH] = b"9999-19-29T29:59:59.999999Z";
    let fits = |byte: u8, most: u8| if most.is_ascii_digit() { (b'0'..=most).contains(&byte) } else { byte == most };
    let Ok(text) = <&[u8; time::LENGTH]>::try_from(text) else { return false };
    let is_formed = text.iter().zip(FORM).fold(true, |all, (byte, most)| all & fits(*byte, *most));
    is_formed && is_common_day(text) && &text[11..13] < b"24".as_slice()
}

/// Whether the first ten characters, digits at their places, are a date of the years 1 to 9998, before the 29th of its month.
fn is_common_day(text: &[u8]) -> bool {
    let (year, month, day) = (&text[..4], &text[5..7], &text[8..10]);
    (b"0001".as_slice()..b"9999".as_slice()).contains(&year)
        && (b"01".as_slice()..=b"12".as_slice()).contains(&month)
        && (b"01".as_slice()..=b"28".as_slice()).contains(&day)
}

fn is_common_date(text: &[u8]) -> bool {
    let Ok(text) = <&[u8; 10]>::try_from(text) else { return false };
    let digits = |at: usize| at == 4 || at == 7 || text[at].is_ascii_digit();
    text[4] == b'-' && text[7] == b'-' && (0..10).all(digits) && is_common_day(text)
}

/// Whether the service can send that point in time, in microseconds since 1970.
fn is_time(micros: i64) -> bool {
    micros >= FIRST_YEAR.as_microsecond() && time::within(micros).is_some()
}

fn is_date(text: &str) -> bool {
    let is_formed = text.len() == 10 && !text.starts_with(['+', '-']);
    is_formed && text.parse::<Date>().is_ok_and(|date| date.year() > 0 && date.to_string() == text)
}

fn is_uuid(text: &[u8]) -> bool {
    let Ok(text) = <&[u8; 36]>::try_from(text) else { return false };
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    text.iter().enumerate().all(fits)
}

/// Whether text is a whole number or one with digits on both sides of its point.
fn is_plain_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_whole = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    match digits.iter().position(|byte| *byte == b'.') {
        Some(point) => is_whole(&digits[..point]) && is_whole(&digits[point + 1..]),
        None => is_whole(digits),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// A record is one line: line breaks of stored JSON, which occur only between its tokens, become spaces.
fn splice(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    for byte in &mut out[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use gatewright_db::Value;

    use super::*;

    const CODECS: [Codec; 8] =
        [Codec::Text, Codec::Id, Codec::Uuid, Codec::Decimal, Codec::Date, Codec::Time, Codec::Json, Codec::Int];
    const FORMED: [&str; 6] = [
        "2024-02-29",
        "1970-01-28",
        "1970-01-01T00:00:00.000001Z",
        "9998-12-28T23:59:59.999999Z",
        "0191d2b3-0000-7000-8000-00000000000a",
        "-10.50",
    ];

    fn written(codec: Codec, value: &ValueRef<'_>) -> Result<String, &'static str> {
        let mut out = Vec::new();
        Column::new("a_b", codec, JsonCase::Camel, false).append(value, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_of_both_engines_are_written_equally() {
        let cases = [
            (Codec::Text, ValueRef::Text("é \"q\" \u{1}\n".into()), r#""é \"q\" \u0001\n""#),
            (Codec::Text, ValueRef::Text("\u{7f}\\".into()), "\"\u{7f}\\\\\""),
            (Codec::Text, ValueRef::Text("0123456789abcdef é / \u{2028}".into()), "\"0123456789abcdef é / \u{2028}\""),
            (Codec::Text, ValueRef::Text("".into()), "\"\""),
            (Codec::Text, ValueRef::Null, "null"),
            (Codec::Int, ValueRef::Int(i64::MIN), "-9223372036854775808"),
            (Codec::Float, ValueRef::Float(0.1), "0.1"),
            (Codec::Float, ValueRef::Float(1e300), "1e+300"),
            (Codec::Bool, ValueRef::Int(1), "true"),
            (Codec::Bool, ValueRef::Bool(false), "false"),
            (Codec::Time, ValueRef::Time(1), "\"1970-01-01T00:00:00.000001Z\""),
            (Codec::Time, ValueRef::Text("1970-01-01T00:00:00.000001Z".into()), "\"1970-01-01T00:00:00.000001Z\""),
            (Codec::Time, ValueRef::Text("2024-02-29T23:00:00.000001Z".into()), "\"2024-02-29T23:00:00.000001Z\""),
            (Codec::Time, ValueRef::Text("1970-01-01 00:00:01".into()), "\"1970-01-01T00:00:01.000000Z\""),
            (Codec::Time, ValueRef::Text("1970-01-01T01:00:01.5+01:00".into()), "\"1970-01-01T00:00:01.500000Z\""),
            (Codec::Id, ValueRef::Text("Ann".into()), "\"Ann\""),
            (Codec::Decimal, ValueRef::Text("-1.50".into()), "\"-1.50\""),
            (Codec::Date, ValueRef::Text("0001-01-01".into()), "\"0001-01-01\""),
            (Codec::Date, ValueRef::Text("2024-02-29".into()), "\"2024-02-29\""),
            (Codec::Date, ValueRef::Date(0), "\"1970-01-01\""),
            (Codec::Json, ValueRef::Text("{\"a\":\n[1.50]}".into()), "{\"a\": [1.50]}"),
        ];
        for (codec, value, expected) in cases {
            assert_eq!(written(codec, &value), Ok(format!(",\"aB\":{expected}")), "{codec:?} {value:?}");
        }
    }

    #[test]
    fn a_copied_text_equals_the_written_one() {
        let every_ascii = (0..128_u8).map(|byte| format!("a long enough text with {} in it", char::from(byte)));
        let texts = every_ascii.chain(["", "plain", "é", "\u{2028}", "\u{fffd}"].map(str::to_owned));
        for text in texts.chain(FORMED.map(str::to_owned)) {
            let values = [Value::Text(text.clone())];
            let row = RowRef::given(&values, &[Some(0)]);
            for codec in CODECS {
                let mut out = Vec::new();
                let is_copied = Column::new("a_b", codec, JsonCase::Camel, false).copy(&row, 0, &mut out);
                if is_copied {
                    let written = written(codec, &ValueRef::Text(text.as_str().into()));
                    assert_eq!(written.as_deref(), Ok(&*String::from_utf8(out).unwrap()), "{codec:?} {text:?}");
                } else {
                    assert_eq!(out, b"", "{codec:?} {text:?}");
                }
            }
            let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte) && !matches!(byte, b'"' | b'\\'));
            assert_eq!(is_printable_ascii(text.as_bytes()), is_plain, "{text:?}");
        }
        assert!(!is_printable_ascii(b"no UTF-8: \xff"));
    }

    #[test]
    fn each_byte_at_each_place_beside_each_other_one_is_checked() {
        let fits = |byte: u8| (0x20..0x7f).contains(&byte) && !matches!(byte, b'"' | b'\\');
        for byte in 0..=u8::MAX {
            for beside in 0..=u8::MAX {
                for place in 0..17 {
                    let mut text = [b'a'; 18];
                    (text[place], text[place + 1]) = (byte, beside);
                    assert_eq!(is_printable_ascii(&text), fits(byte) && fits(beside), "{byte} {beside} {place}");
                }
            }
        }
    }

    #[test]
    fn an_unexpected_value_of_a_column_is_an_error() {
        let text = |text: &str| ValueRef::Text(text.to_owned().into());
        for (codec, value) in [
            (Codec::Text, ValueRef::Int(1)),
            (Codec::Id, text("0191D2B3-0000-7000-8000-00000000000A")),
            (Codec::Uuid, text("0191D2B3-0000-7000-8000-00000000000A")),
            (Codec::Uuid, text("0191d2b3-0000-7000-8000_00000000000a")),
            (Codec::Decimal, text("1,5")),
            (Codec::Decimal, text("@NaN")),
            (Codec::Decimal, text("-")),
            (Codec::Decimal, text("1.")),
            (Codec::Int, text("1")),
            (Codec::Float, ValueRef::Float(f64::NAN)),
            (Codec::Float, ValueRef::Float(f64::INFINITY)),
            (Codec::Bool, ValueRef::Int(2)),
            (Codec::Time, text("yesterday")),
            (Codec::Time, text("1970-01-01T00:00:00.0000\"1Z")),
            (Codec::Time, text("2026-02-29T00:00:00.000000Z")),
            (Codec::Time, text("2026-02-28T24:00:00.000000Z")),
            (Codec::Time, text("2026-00-28T20:00:00.000000Z")),
            (Codec::Time, text("2026-13-28T20:00:00.000000Z")),
            (Codec::Time, text("0000-01-01T00:00:00.000000Z")),
            (Codec::Time, text("9999-12-31T23:59:59.000000Z")),
            (Codec::Time, ValueRef::Time(253_402_300_799_000_000)),
            (Codec::Time, ValueRef::Time(i64::MAX)),
            (Codec::Time, ValueRef::Time(i64::MIN)),
            (Codec::Date, text("2026-02-29")),
            (Codec::Date, text("2026-00-01")),
            (Codec::Date, text("0000-01-01")),
            (Codec::Date, text("tomorrow")),
            (Codec::Date, text("20260101")),
            (Codec::Date, ValueRef::Date(i64::from(i32::MAX))),
            (Codec::Date, ValueRef::Date(-719_163)),
            (Codec::Json, ValueRef::Bytes(b"{}")),
            (Codec::Json, text("{")),
            (Codec::Json, text("")),
            (Codec::Json, text("1,\"admin\":true")),
        ] {
            assert!(written(codec, &value).is_err(), "{codec:?} {value:?}");
            let ValueRef::Text(text) = &value else { continue };
            let (values, mut out) = ([Value::Text(text.clone().into_owned())], Vec::new());
            let column = Column::new("a_b", codec, JsonCase::Camel, false);
            assert!(!column.copy(&RowRef::given(&values, &[Some(0)]), 0, &mut out), "{codec:?} {text:?}");
        }
    }
}
