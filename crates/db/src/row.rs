use std::borrow::Cow;
use std::sync::Arc;

use gatewright_base::{Id, time};
use jiff::Timestamp;

use crate::{Error, Sql, Value};

/// A row taken out of the database, whole. For answers of any size, [`RowRef`] is the way.
#[derive(Debug, Clone)]
pub struct Row {
    shape: Arc<Shape>,
    values: Vec<Value>,
}

/// What the rows of one statement have in common.
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
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::Time(_) => "a time",
    }
}

/// A type that a column's value can be read as.
pub trait FromValue: Sized {
    /// What the column should hold, for the message when it does not.
    const EXPECTED: &'static str;
    /// Reads `value`; `None` when it is something else.
    fn from_value(value: &Value) -> Option<Self>;
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
    String, "text", Value::Text(t) => Some(t.clone());
    Vec<u8>, "bytes", Value::Bytes(b) => Some(b.clone());
    Timestamp, "a time", Value::Time(t) => Some(*t), Value::Text(t) => time::parse(t);
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
            Value::Text(text) => Self::parse(text).ok(),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// A row still in the driver's hands: values are read by position and borrow from it.
#[derive(Debug)]
pub struct RowRef<'a>(pub(crate) Source<'a>);

pub(crate) enum Source<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
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
            Source::Sqlite(row) => crate::engine::sqlite::value(row, index),
            Source::Postgres(row) => crate::engine::postgres::value(row, index),
        }
    }
}

/// A value that still lies in the driver's buffer.
///
/// What a column yields depends on the engine: a timestamp is [`Text`](Self::Text) on SQLite and [`Time`](Self::Time)
/// on Postgres, a boolean [`Int`](Self::Int) or [`Bool`](Self::Bool), JSON and decimals always text.
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

impl ValueRef<'_> {
    /// An owned copy. Dates become their text, times outside the calendar are cut to its ends.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(value) => Value::Text(value.clone().into_owned()),
            Self::Bytes(value) => Value::Bytes(value.to_vec()),
            Self::Time(micros) => Value::Time(Timestamp::from_microsecond(*micros).unwrap_or(Timestamp::MAX)),
            Self::Date(day) => Value::Text(time::format_date(*day)),
        }
    }
}
