//! A checksum over rows that does not depend on their order, or on how an engine writes a value.

use std::fmt;

use gatewright_base::time;
use sha2::{Digest, Sha256};

use crate::Value;
use crate::json::{comparable, exact};

/// The type of a column, by Postgres's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Float,
    Time,
    Json,
    Decimal,
    Uuid,
    /// Text, whole numbers, bytes and dates: one spelling each.
    Plain,
}

impl Kind {
    pub(super) fn of(type_name: &str) -> Self {
        match type_name {
            "BOOLEAN" => Self::Bool,
            "DOUBLE PRECISION" => Self::Float,
            "TIMESTAMPTZ" => Self::Time,
            "JSONB" => Self::Json,
            "NUMERIC" => Self::Decimal,
            "UUID" => Self::Uuid,
            _ => Self::Plain,
        }
    }
}

/// The number of rows, and the sum of their digests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checksum {
    rows: u64,
    sum: u128,
}

impl Checksum {
    /// Adds a row.
    pub(super) fn add<'a>(&mut self, values: impl Iterator<Item = (&'a Value, Kind)>) {
        let mut digest = Sha256::new();
        for (value, kind) in values {
            let (tag, bytes) = canonical(value, kind);
            digest.update([tag]);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(&bytes);
        }
        let digest: [u8; 32] = digest.finalize().into();
        let (half, _) = digest.split_first_chunk::<16>().expect("a digest has 32 bytes");
        self.rows += 1;
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(*half));
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.sum)
    }
}

/// The value in its canonical form. A value that does not fit its column's type stays unchanged, and then differs from
/// one that does.
pub(super) fn canonical(value: &Value, kind: Kind) -> (u8, Vec<u8>) {
    match (value, kind) {
        (Value::Null, _) => (0, Vec::new()),
        (Value::Bool(truth), _) => (1, vec![u8::from(*truth)]),
        (Value::Int(number @ (0 | 1)), Kind::Bool) => (1, vec![u8::from(*number == 1)]),
        #[expect(clippy::cast_precision_loss, reason = "the column holds a float")]
        (Value::Int(number), Kind::Float) => (2, (*number as f64).to_be_bytes().to_vec()),
        // SQLite does not keep the sign of zero in every place.
        (Value::Float(number), _) => (2, (*number + 0.0).to_be_bytes().to_vec()),
        (Value::Time(moment), _) => (3, moment.as_microsecond().to_be_bytes().to_vec()),
        (Value::Text(text), Kind::Time) => match time::stored(text) {
            Some(moment) => (3, moment.as_microsecond().to_be_bytes().to_vec()),
            None => (4, text.clone().into_bytes()),
        },
        (Value::Text(text), Kind::Json) => (4, json(text)),
        (Value::Json(document), _) => (4, json(document.as_str())),
        (Value::Text(text), Kind::Decimal) => (4, exact(text).unwrap_or_else(|| text.clone()).into_bytes()),
        (Value::Text(text), Kind::Uuid) => (4, text.to_ascii_lowercase().into_bytes()),
        (Value::Int(number), Kind::Decimal) => {
            let text = number.to_string();
            (4, exact(&text).unwrap_or(text).into_bytes())
        }
        (Value::Text(text), _) => (4, text.clone().into_bytes()),
        (Value::Int(number), _) => (5, number.to_be_bytes().to_vec()),
        (Value::Bytes(bytes), _) => (6, bytes.clone()),
    }
}

/// Postgres sorts members, drops repeated ones and spells numbers in its own way.
fn json(text: &str) -> Vec<u8> {
    comparable(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(rows: &[&[(Value, Kind)]]) -> Checksum {
        let mut sum = Checksum::default();
        for row in rows {
            sum.add(row.iter().map(|(value, kind)| (value, *kind)));
        }
        sum
    }

    #[test]
    fn the_notation_of_an_engine_does_not_count() {
        let moment: jiff::Timestamp = "2024-02-29T12:00:00.000001Z".parse().unwrap();
        for (sqlite, postgres, kind) in [
            (Value::Int(1), Value::Bool(true), Kind::Bool),
            (Value::from("2024-02-29T12:00:00.000001Z"), Value::Time(moment), Kind::Time),
            (Value::from("12.5"), Value::from("12.50"), Kind::Decimal),
            (Value::from("12"), Value::from("12.000"), Kind::Decimal),
            (Value::from("-0"), Value::from("0.0"), Kind::Decimal),
            (Value::Int(120), Value::from("120"), Kind::Decimal),
            (Value::from(r#"{"b":1.0,"a":[1e2,"x"]}"#), Value::from(r#"{"a": [100, "x"], "b": 1.0}"#), Kind::Json),
            (Value::Int(3), Value::Float(3.0), Kind::Float),
            (Value::from("[-0, -0.0, 1e-3]"), Value::from("[0, 0.0, 0.001]"), Kind::Json),
            (Value::Float(-0.0), Value::Float(0.0), Kind::Float),
            (Value::Null, Value::Null, Kind::Json),
        ] {
            assert_eq!(sum(&[&[(sqlite.clone(), kind)]]), sum(&[&[(postgres, kind)]]), "{sqlite:?}");
        }
    }

    #[test]
    fn different_rows_differ_and_the_order_of_rows_does_not_count() {
        let (a, b) = ((Value::from("a"), Kind::Plain), (Value::from("b"), Kind::Plain));
        let all = [
            sum(&[]),
            sum(&[std::slice::from_ref(&a)]),
            sum(&[std::slice::from_ref(&a), std::slice::from_ref(&a)]),
            sum(&[&[a.clone(), b.clone()]]),
            sum(&[&[b.clone(), a.clone()]]),
            sum(&[&[(Value::from("ab"), Kind::Plain)]]),
            sum(&[&[(Value::Null, Kind::Plain)]]),
            sum(&[&[(Value::from(""), Kind::Plain)]]),
            sum(&[&[(Value::Int(1), Kind::Plain)]]),
            sum(&[&[(Value::from("1"), Kind::Plain)]]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other != one), "{index}");
        }
        assert_eq!(
            sum(&[std::slice::from_ref(&a), std::slice::from_ref(&b)]),
            sum(&[std::slice::from_ref(&b), std::slice::from_ref(&a)])
        );
    }
}
