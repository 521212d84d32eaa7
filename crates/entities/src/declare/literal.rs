/// A value written in a declaration: a default or a bound.
///
/// It is checked against its field like a client's value when the entities are built, so that `default = "yes"` on a
/// `bool` stops the program at its start and not at its first write.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text; also how decimals, dates, timestamps and ids are written.
    Text(String),
    /// Anything, for `json` fields.
    Json(serde_json::Value),
}

impl Literal {
    /// The literal as JSON text, which is what a client would have sent for it.
    pub(crate) fn to_json(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            // Infinity has no JSON form; its Rust spelling is then refused as not being JSON.
            Self::Float(value) => format!("{value:?}"),
            Self::Text(value) => serde_json::Value::from(value.as_str()).to_string(),
            Self::Json(value) => value.to_string(),
        }
    }
}

macro_rules! from {
    ($($source:ty => |$value:ident| $make:expr),+ $(,)?) => {
        $(impl From<$source> for Literal {
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
    &str => |value| Self::Text(value.to_owned()),
    String => |value| Self::Text(value),
    serde_json::Value => |value| Self::Json(value),
}
