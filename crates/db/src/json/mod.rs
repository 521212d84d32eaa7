//! JSON as the columns of records hold it: in one spelling, with numbers that every part of the service reads as the
//! same number.
//!
//! Engines differ in what they do with a number. Postgres writes `1e-300` as 302 digits, keeps `1.0` and drops the sign
//! of `-0`; SQLite keeps the text and compares a double that its own reader may round differently. So a number has one
//! form: an integer of 64 bits as its digits, any other number as the shortest text of its double. What neither holds is
//! refused. [`Json`] can only be made by the reader that does this.

mod number;
mod reader;
mod stored;

use std::fmt;

pub use number::{Number, OutOfRange};
pub use stored::check;
#[cfg(feature = "postgres")]
pub(crate) use stored::respelled;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub(crate) use stored::{comparable, exact};
#[cfg(feature = "sqlite")]
pub(crate) use stored::{distinct, has_number, nearest};

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;

/// A JSON value without spaces between its tokens, with its numbers in canonical form, and with nothing in it that one
/// of the engines would refuse or change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(String);

impl Json {
    /// Reads JSON.
    ///
    /// ```
    /// use gatewright_db::json::Json;
    /// assert_eq!(Json::read("[1.0, -0, 1e2, 0.50]").unwrap().as_str(), "[1,0,100,0.5]");
    /// assert_eq!(Json::read(r#"{"a":[1,1e400]}"#).unwrap_err().path, ".a[1]");
    /// ```
    pub fn read(text: &str) -> Result<Self, Unstorable> {
        reader::canonical(text).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a JSON value cannot be stored, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unstorable {
    /// The reason.
    pub why: Why,
    /// The place in the value: `.items[3].n`, empty for the value itself.
    pub path: String,
}

/// Why a JSON value cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It is not JSON.
    Form,
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
    /// A string with a NUL character, or with half of a surrogate pair.
    Characters,
    /// A number that cannot be held.
    Number(OutOfRange),
    /// An object with the same key twice.
    Repeated,
    /// A number that is not in canonical form. Only [`check`] returns this.
    Spelling,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("not JSON"),
            Self::Depth => write!(f, "nested more than {MAX_DEPTH} deep"),
            Self::Characters => f.write_str("the character U+0000 or half of a surrogate pair"),
            Self::Number(out) => out.fmt(f),
            Self::Repeated => f.write_str("a key that the object has already"),
            Self::Spelling => f.write_str("a number that is not in canonical form"),
        }
    }
}

impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { self.why.fmt(f) } else { write!(f, "{} at {}", self.why, self.path) }
    }
}

impl std::error::Error for Unstorable {}
