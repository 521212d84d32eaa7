//! From [`Fields`](super::Fields) to a handler's type, with errors that name the field and never repeat its value.

use std::borrow::Cow;
use std::fmt;

use gatewright_base::JsonCase;
use indexmap::IndexMap;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::FieldsError;
use super::fields::{Entry, FieldValue, Fields, clip};

impl de::Error for FieldsError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new("invalid", message.to_string())
    }
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("invalid", format!("expected {}, not {}", plain(&expected.to_string()), kind(&unexpected)))
    }
    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("invalid", format!("expected {}", plain(&expected.to_string())))
    }
    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new("invalid", format!("expected one of {}", expected.join(", ")))
    }
    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Self::new("unknown", "there is no such field").at(field)
    }
    fn missing_field(field: &'static str) -> Self {
        Self::new("required", "is required").at(field)
    }
}

impl Fields {
    /// The handler's type. Errors name the field as the caller spelled it, or, for one that is missing, in `case`.
    pub fn parse<T: DeserializeOwned>(self, case: JsonCase) -> Result<T, FieldsError> {
        T::deserialize(FromFields::new(self.entries, case))
    }
}

/// Serde's name of a type, in words for callers of an API.
fn plain(expected: &str) -> &str {
    match expected {
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number of at least 0",
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" | "a character" => "text",
        "a sequence" => "a list",
        "a map" => "an object",
        named if named.starts_with("struct ") => "an object",
        other => other,
    }
}

/// The kind of a value, without the value itself.
fn kind(unexpected: &Unexpected<'_>) -> &'static str {
    match unexpected {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a number",
        Unexpected::Float(_) => "a decimal number",
        Unexpected::Char(_) | Unexpected::Str(_) => "text",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "this",
    }
}

/// All fields as one map, or as nothing for `()`.
pub(super) struct FromFields {
    entries: indexmap::map::IntoIter<String, Entry>,
    names: Vec<(String, String)>,
    current: Option<Entry>,
    case: JsonCase,
}

impl FromFields {
    pub(super) fn new(entries: IndexMap<String, Entry>, case: JsonCase) -> Self {
        let names = entries.iter().map(|(snake, entry)| (snake.clone(), entry.spelled.clone())).collect();
        Self { entries: entries.into_iter(), names, current: None, case }
    }
}

impl<'de> Deserializer<'de> for FromFields {
    type Error = FieldsError;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, FieldsError> {
        visitor.visit_map(&mut self).map_err(|mut error| {
            // Serde reports missing and unknown fields by the type's names; the error must use the caller's spelling.
            if let Some(field) = error.field.take() {
                let spelled = self.names.iter().find(|(snake, _)| *snake == field);
                error.field = Some(spelled.map_or_else(|| self.case.spell(&field), |(_, spelled)| clip(spelled)));
            }
            error
        })
    }
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
        visitor.visit_unit()
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &str, visitor: V) -> Result<V::Value, FieldsError> {
        visitor.visit_newtype_struct(self)
    }
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for &mut FromFields {
    type Error = FieldsError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldsError> {
        let Some((snake, entry)) = self.entries.next() else {
            return Ok(None);
        };
        self.current = Some(entry);
        let key: StrDeserializer<'_, FieldsError> = snake.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FieldsError> {
        let entry = self.current.take().ok_or_else(|| de::Error::custom("a value was asked for before its key"))?;
        seed.deserialize(entry.value).map_err(|error| error.at(&entry.spelled))
    }
}

impl IntoDeserializer<'_, FieldsError> for FieldValue {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl FieldValue {
    /// The one text of a form field, for a type other than a list.
    fn single(texts: Vec<String>) -> Result<String, FieldsError> {
        let [text] =
            <[String; 1]>::try_from(texts).map_err(|_| FieldsError::new("duplicate", "is given more than once"))?;
        Ok(text)
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
        let texts = match self {
            Self::Json(value) => return Self::Json(value).deserialize_any(visitor),
            Self::Text(texts) => texts,
        };
        let text = Self::single(texts)?;
        let text = text.trim();
        if let Ok(number) = text.parse::<u64>() {
            visitor.visit_u64(number)
        } else if let Ok(number) = text.parse::<i64>() {
            visitor.visit_i64(number)
        } else if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
            visitor.visit_f64(number)
        } else {
            Err(de::Error::invalid_type(Unexpected::Str(""), &visitor))
        }
    }
}

/// Forwards the number types of a form's text to the parser of numbers.
macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
            self.number(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for FieldValue {
    type Error = FieldsError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
        match self {
            Self::Text(texts) => visitor.visit_string(text(Self::single(texts)?)?),
            Self::Json(Value::Null) => visitor.visit_unit(),
            Self::Json(Value::Bool(value)) => visitor.visit_bool(value),
            Self::Json(Value::Number(number)) => visit_number(&number, visitor),
            Self::Json(Value::String(value)) => visitor.visit_string(text(value)?),
            Self::Json(Value::Array(values)) => {
                visitor.visit_seq(SeqDeserializer::new(values.into_iter().map(Self::Json)))
            }
            Self::Json(Value::Object(members)) => {
                let members = members.into_iter().map(|(key, value)| (Cow::<str>::Owned(key), Self::Json(value)));
                visitor.visit_map(MapDeserializer::new(members))
            }
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
        let texts = match self {
            Self::Json(value) => return Self::Json(value).deserialize_any(visitor),
            Self::Text(texts) => texts,
        };
        match Self::single(texts)?.as_str() {
            // A checked box without its own value is sent as "on".
            "true" | "on" | "1" => visitor.visit_bool(true),
            "false" | "off" | "0" | "" => visitor.visit_bool(false),
            _ => Err(de::Error::invalid_type(Unexpected::Str(""), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
        // A form sends its empty inputs as empty text.
        let absent = match &self {
            Self::Json(value) => value.is_null(),
            Self::Text(texts) => matches!(texts.as_slice(), [only] if only.is_empty()),
        };
        if absent { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
        match self {
            Self::Text(texts) => {
                visitor.visit_seq(SeqDeserializer::new(texts.into_iter().map(|text| Self::Text(vec![text]))))
            }
            json @ Self::Json(_) => json.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &str, visitor: V) -> Result<V::Value, FieldsError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldsError> {
        match self {
            Self::Text(texts) => visitor.visit_enum(Self::single(texts)?.into_deserializer()),
            Self::Json(Value::String(value)) => visitor.visit_enum(value.into_deserializer()),
            Self::Json(value) => value.deserialize_enum(name, variants, visitor).map_err(json_error),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldsError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier
    }
}

/// Text without null characters, which Postgres cannot store and which end a text early in many libraries.
fn text(text: String) -> Result<String, FieldsError> {
    if text.contains('\0') {
        return Err(FieldsError::new("invalid", "must not contain a null character"));
    }
    Ok(text)
}

/// `serde_json` repeats values in its messages, so that only the kind of failure is kept.
fn json_error(_: serde_json::Error) -> FieldsError {
    FieldsError::new("invalid", "is not of the expected kind")
}

/// Without the errors of `serde_json`: those of [`FieldsError`] say which type is needed.
fn visit_number<'de, V: Visitor<'de>>(number: &serde_json::Number, visitor: V) -> Result<V::Value, FieldsError> {
    match (number.as_u64(), number.as_i64()) {
        (Some(value), _) => visitor.visit_u64(value),
        (None, Some(value)) => visitor.visit_i64(value),
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::INFINITY)),
    }
}
