use std::borrow::Cow;
use std::sync::Arc;

use gatewright_base::{Id, is_upper_uuid, time};
use jiff::Timestamp;

use crate::engine::{postgres, sqlite};
use crate::{Error, Sql, Value};

/// A whole row, copied from the database. For answers of any size, use [`RowRef`].
#[derive(Debug, Clone)]
pub struct Row {
    shape: Arc<Shape>,
    values: Vec<Value>,
}

/// The common part of the rows of one statement.
#[derive(Debug)]
pub(crate) struct Shape {
    columns: Box<[Box<str>]>,
    statement: Sql,
}

impl Shape {
    pub(crate) fn new<'a>(statement: &Sql, columns: impl IntoIterator<Item = &'a str>) -> Self {
        Self { columns: columns.into_iter().map(Box::from).collect(), statement: statement.clone() }
    }

    /// Whether these are its columns.
    pub(crate) fn has<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> bool {
        columns.into_iter().eq(self.columns.iter().map(|name| &**name))
    }
}

impl Row {
    /// The value in `column`, as a `T`.
    pub fn get<T: FromValue>(&self, column: &str) -> Result<T, Error> {
        let position = self.shape.columns.iter().position(|name| **name == *column);
        let corrupt = |found| Error::Corrupt {
            statement: self.shape.statement.as_str().to_owned(),
            column: column.to_owned(),
            found,
            expected: T::EXPECTED,
        };
        let value = position.and_then(|index| self.values.get(index)).ok_or_else(|| corrupt("no such column"))?;
        T::from_value(value).ok_or_else(|| corrupt(kind(value)))
    }

    /// The values in column order.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// What names the row in a log: its id, or the texts before the first other value.
    pub(crate) fn name(&self) -> String {
        if let Ok(id) = self.get::<String>("id") {
            return id;
        }
        let texts =
            self.values.iter().map_while(|value| if let Value::Text(text) = value { Some(&**text) } else { None });
        texts.take(3).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn from_ref(row: &RowRef<'_>, shape: &Arc<Shape>) -> Result<Self, Error> {
        let columns = 0..shape.columns.len();
        let values = columns.map(|index| row.value(index).map(|v| v.to_value())).collect::<Result<_, _>>()?;
        Ok(Self { shape: shape.clone(), values })
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Int(_) => "an integer",
        Value::Float(_) => "a float",
        Value::Text(_) | Value::Json(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::Time(_) => "a time",
    }
}

/// A type that a column's value can be read as.
pub trait FromValue: Sized {
    /// The expected content of the column, for the error message.
    const EXPECTED: &'static str;
    /// Reads `value`; `None` if it has another type.
    fn from_value(value: &Value) -> Option<Self>;
    /// Reads a value in the driver's buffer, as [`from_value`](Self::from_value) reads a copy of it.
    fn from_ref(value: &ValueRef<'_>) -> Option<Self> {
        Self::from_value(&value.to_value())
    }
}

macro_rules! from_value {
    ($($target:ty, $expected:literal, $($pattern:pat => $result:expr),+;)+) => {
        $(impl FromValue for $target {
            const EXPECTED: &'static str = $expected;
            fn from_value(value: &Value) -> Option<Self> {
                match value { $($pattern => $result,)+ _ => None }
            }
        })+
    };
}

from_value! {
    bool, "a boolean", Value::Bool(b) => Some(*b), Value::Int(0) => Some(false), Value::Int(1) => Some(true);
    i64, "an integer", Value::Int(i) => Some(*i);
    f64, "a float", Value::Float(f) => Some(*f), Value::Int(i) => i32::try_from(*i).ok().map(f64::from);
    Vec<u8>, "bytes", Value::Bytes(b) => Some(b.clone());
}

impl FromValue for String {
    const EXPECTED: &'static str = "text";
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.clone()) } else { None }
    }
    fn from_ref(value: &ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Text(text) => Some(text.clone().into_owned()),
            other => Self::from_value(&other.to_value()),
        }
    }
}

impl FromValue for Timestamp {
    const EXPECTED: &'static str = "a time";
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Time(time) => Some(*time),
            Value::Text(text) => time::stored(text),
            _ => None,
        }
    }
    fn from_ref(value: &ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Text(text) => time::stored(text),
            other => Self::from_value(&other.to_value()),
        }
    }
}

impl FromValue for Value {
    const EXPECTED: &'static str = "any value";
    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl<T> FromValue for Id<T> {
    const EXPECTED: &'static str = "an identifier";
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => stored_id(text),
            _ => None,
        }
    }
    fn from_ref(value: &ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Text(text) => stored_id(text),
            other => Self::from_value(&other.to_value()),
        }
    }
}

/// An identifier as the database has it. Another spelling is not converted: a query by it would not find the row.
fn stored_id<T>(text: &str) -> Option<Id<T>> {
    if is_upper_uuid(text.as_bytes()) { None } else { Id::parse(text).ok() }
}

impl<T: FromValue> FromValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
    fn from_ref(value: &ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Null => Some(None),
            value => T::from_ref(value).map(Some),
        }
    }
}

/// A row in the driver's buffer: values are read by position and borrow from it.
#[derive(Debug)]
pub struct RowRef<'a>(pub(crate) Source<'a>);

impl<'a> RowRef<'a> {
    /// A row as it would be read back after these values were written. `places` has the position of each column's value, and
    /// `None` if it is NULL. Only valid if [`dialect::keeps_as_given`](crate::dialect::keeps_as_given) is true.
    pub fn given(values: &'a [Value], places: &'a [Option<usize>]) -> Self {
        Self(Source::Given { values, places })
    }
}

pub(crate) enum Source<'a> {
    Given { values: &'a [Value], places: &'a [Option<usize>] },
    Sqlite(&'a sqlite::DriverRow<'a>),
    Postgres(&'a postgres::DriverRow),
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("row")
    }
}

impl RowRef<'_> {
    /// The value at `index`, counted from 0 in the order of the selected columns.
    pub fn value(&self, index: usize) -> Result<ValueRef<'_>, Error> {
        match self.0 {
            Source::Sqlite(row) => sqlite::value(row, index),
            Source::Postgres(row) => postgres::value(row, index),
            Source::Given { values, places } => Ok(match places.get(index) {
                Some(Some(place)) => values.get(*place).map_or(ValueRef::Null, ValueRef::of),
                _ => ValueRef::Null,
            }),
        }
    }

    /// The bytes of a text at `index` in the driver's buffer, not checked to be UTF-8: for callers that read each byte
    /// anyway. `None` if the value is not text, or not in the driver's buffer: then use [`value`](Self::value).
    pub fn text_bytes(&self, index: usize) -> Option<&[u8]> {
        match self.0 {
            Source::Sqlite(row) => sqlite::text_bytes(row, index),
            Source::Postgres(_) => None,
            Source::Given { values, places } => match values.get((*places.get(index)?)?) {
                Some(Value::Text(text)) => Some(text.as_bytes()),
                Some(Value::Json(json)) => Some(json.as_str().as_bytes()),
                _ => None,
            },
        }
    }

    /// The value at `index` as a `T`, without a copy in between.
    pub fn get<T: FromValue>(&self, index: usize) -> Result<T, Error> {
        let value = self.value(index)?;
        T::from_ref(&value).ok_or_else(|| self.corrupt(index, kind(&value.to_value()), T::EXPECTED))
    }

    /// The error for a value at `index` of an unexpected type.
    pub(crate) fn corrupt(&self, index: usize, found: &'static str, expected: &'static str) -> Error {
        let columns: Vec<&str> = match self.0 {
            Source::Sqlite(row) => sqlite::columns(row),
            Source::Postgres(row) => postgres::columns(row),
            Source::Given { .. } => Vec::new(),
        };
        let column = (*columns.get(index).unwrap_or(&"?")).to_owned();
        Error::Corrupt { statement: format!("a query of {}", columns.join(", ")), column, found, expected }
    }
}

/// The first character of a time, a date or a decimal of Postgres that cannot be written as text, before its microseconds or
/// days since 1970, where infinity is the greatest and the least number, or its name.
pub(crate) const OUTSIDE: char = '@';

/// A value in the driver's buffer.
///
/// The variant of a column depends on the engine: a timestamp is [`Text`](Self::Text) on SQLite and
/// [`Time`](Self::Time) on Postgres, a boolean [`Int`](Self::Int) or [`Bool`](Self::Bool), JSON and decimals always
/// text.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL's NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// Any integer.
    Int(i64),
    /// A double.
    Float(f64),
    /// Text; owned where the driver's form is binary (UUIDs and decimals on Postgres).
    Text(Cow<'a, str>),
    /// Raw bytes.
    Bytes(&'a [u8]),
    /// Microseconds since 1970.
    Time(i64),
    /// Days since 1970.
    Date(i64),
}

impl<'a> ValueRef<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Float(value) => Self::Float(*value),
            Value::Text(value) => Self::Text(Cow::Borrowed(value)),
            Value::Json(value) => Self::Text(Cow::Borrowed(value.as_str())),
            Value::Bytes(value) => Self::Bytes(value),
            Value::Time(value) => Self::Time(value.as_microsecond()),
        }
    }
}

impl ValueRef<'_> {
    /// An owned copy. Dates become their text. A time or a date that cannot be written is `OUTSIDE` and its number: it
    /// is not readable as a time, but equal to itself as a parameter.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(value) => Value::Text(value.clone().into_owned()),
            Self::Bytes(value) => Value::Bytes(value.to_vec()),
            Self::Time(micros) => {
                time::within(*micros).map_or_else(|| Value::Text(format!("{OUTSIDE}{micros}")), Value::Time)
            }
            Self::Date(day) if time::is_date(*day) => Value::Text(time::format_date(*day)),
            Self::Date(day) => Value::Text(format!("{OUTSIDE}{day}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that is read in place equals one that is read from a copy.
    #[test]
    fn a_value_is_the_same_by_reference_and_by_copy() {
        fn same<T: FromValue + PartialEq + std::fmt::Debug>(value: &ValueRef<'_>) {
            assert_eq!(T::from_ref(value), T::from_value(&value.to_value()), "{value:?}");
        }
        let day = "2026-01-02T03:04:05.000006Z";
        for value in [
            ValueRef::Null,
            ValueRef::Bool(true),
            ValueRef::Int(1),
            ValueRef::Int(2),
            ValueRef::Float(0.5),
            ValueRef::Text(day.into()),
            ValueRef::Text("a text".into()),
            ValueRef::Text("".into()),
            ValueRef::Bytes(b"bytes"),
            ValueRef::Time(6),
            ValueRef::Time(i64::MAX),
            ValueRef::Date(0),
        ] {
            same::<bool>(&value);
            same::<i64>(&value);
            same::<f64>(&value);
            same::<Vec<u8>>(&value);
            same::<Timestamp>(&value);
            same::<gatewright_base::UserId>(&value);
            same::<Option<Timestamp>>(&value);
            same::<Option<String>>(&value);
            same::<String>(&value);
        }
    }
}
