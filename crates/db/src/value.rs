use gatewright_base::Id;
use jiff::Timestamp;

use crate::json::Json;

/// A parameter of a statement, or a value of a row.
///
/// On Postgres a value is encoded with the type that the server reports for the placeholder, so that text can be stored
/// in `uuid`, `numeric`, `jsonb`, `timestamptz` and `date` columns too, and an untyped NULL in any column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// A truth value; 0 or 1 on SQLite.
    Bool(bool),
    /// Any integer.
    Int(i64),
    /// A finite or infinite double.
    Float(f64),
    /// Text without NUL characters.
    Text(String),
    /// The value of a `json` field. Other JSON that the service writes is [`Text`](Self::Text).
    Json(Json),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// A point in time, kept to the microsecond.
    Time(Timestamp),
}

macro_rules! from {
    ($($source:ty => |$value:ident| $make:expr),+ $(,)?) => {
        $(impl From<$source> for Value {
            fn from($value: $source) -> Self { $make }
        })+
    };
}

from! {
    bool => |value| Self::Bool(value),
    i64 => |value| Self::Int(value),
    i32 => |value| Self::Int(value.into()),
    u32 => |value| Self::Int(value.into()),
    f64 => |value| Self::Float(value),
    String => |value| Self::Text(value),
    &String => |value| Self::Text(value.clone()),
    &str => |value| Self::Text(value.to_owned()),
    Vec<u8> => |value| Self::Bytes(value),
    &[u8] => |value| Self::Bytes(value.to_vec()),
    Timestamp => |value| Self::Time(value),
    Json => |value| Self::Json(value),
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(value: [u8; N]) -> Self {
        Self::Bytes(value.to_vec())
    }
}

impl<T> From<Id<T>> for Value {
    fn from(id: Id<T>) -> Self {
        Self::Text(id.as_str().to_owned())
    }
}

impl<T> From<&Id<T>> for Value {
    fn from(id: &Id<T>) -> Self {
        Self::Text(id.as_str().to_owned())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Makes a `Vec<Value>` of anything that converts.
///
/// ```
/// use gatewright_db::{Value, params};
/// assert_eq!(params!["a", 1_i64, None::<bool>], vec![Value::Text("a".into()), Value::Int(1), Value::Null]);
/// ```
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        ::std::vec![$($crate::Value::from($value)),*]
    };
}
