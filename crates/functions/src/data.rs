//! Values that go into functions and come out of them.

use rquickjs::{Array, BigInt, Coerced, Ctx, Exception, FromJs, Object, TypedArray, Value};
use serde_json::{Map, Number, Value as Json};

/// How deep a value may be nested.
const DEPTH: usize = 128;
/// Integers up to this size are numbers of JavaScript; larger ones are `bigint`.
const SAFE: i64 = 9_007_199_254_740_991;

/// A value of JavaScript: JSON with two more kinds.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// `null`, and `undefined` in lists.
    Null,
    /// `true` and `false`.
    Bool(bool),
    /// A number. Integers outside of ±(2^53 − 1) go in as `bigint`.
    Number(Number),
    /// A `bigint`, also where its value is small.
    BigInt(i64),
    /// A string.
    Text(String),
    /// A `Uint8Array`.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<Data>),
    /// A plain object, in the order of its keys. Keys without a value (`undefined`) are left out.
    Object(Vec<(String, Data)>),
}

impl Data {
    /// The value at a key of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// As JSON. Bytes have no form there and are null.
    pub fn into_json(self) -> Json {
        match self {
            Self::Null | Self::Bytes(_) => Json::Null,
            Self::Bool(value) => Json::Bool(value),
            Self::Number(value) => Json::Number(value),
            Self::BigInt(value) => Json::from(value),
            Self::Text(text) => Json::String(text),
            Self::List(items) => items.into_iter().map(Self::into_json).collect(),
            Self::Object(entries) => {
                Json::Object(entries.into_iter().map(|(key, value)| (key, value.into_json())).collect())
            }
        }
    }

    pub(crate) fn to_js<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        Ok(match self {
            Self::Null => Value::new_null(ctx.clone()),
            Self::Bool(value) => Value::new_bool(ctx.clone(), *value),
            Self::Number(number) => match number.as_i64() {
                Some(value) if (-SAFE..=SAFE).contains(&value) => number_of(ctx, value),
                Some(value) => BigInt::from_i64(ctx.clone(), value)?.into_value(),
                None => Value::new_float(ctx.clone(), number.as_f64().unwrap_or(f64::NAN)),
            },
            Self::BigInt(value) => BigInt::from_i64(ctx.clone(), *value)?.into_value(),
            Self::Text(text) => rquickjs::String::from_str(ctx.clone(), text)?.into_value(),
            // A copy into the engine's own memory.
            Self::Bytes(bytes) => TypedArray::<u8>::new_copy(ctx.clone(), bytes)?.into_value(),
            Self::List(items) => {
                let array = Array::new(ctx.clone())?;
                for (index, item) in items.iter().enumerate() {
                    array.set(index, item.to_js(ctx)?)?;
                }
                array.into_value()
            }
            // As a property it would be the prototype.
            Self::Object(entries) if entries.iter().any(|(key, _)| key == "__proto__") => {
                ctx.json_parse(self.clone().into_json().to_string())?
            }
            Self::Object(entries) => {
                let object = Object::new(ctx.clone())?;
                for (key, value) in entries {
                    object.set(key.as_str(), value.to_js(ctx)?)?;
                }
                object.into_value()
            }
        })
    }

    /// The value as data, as `JSON.stringify` sees it, with `bigint` and bytes. `room` is the number of bytes that may still be read.
    ///
    /// Fails with an exception of JavaScript for functions, symbols, circles and values that are too large.
    pub(crate) fn from_js<'js>(ctx: &Ctx<'js>, value: &Value<'js>, room: &mut usize) -> rquickjs::Result<Self> {
        Self::read(ctx, value, room, DEPTH)
    }

    fn read<'js>(ctx: &Ctx<'js>, value: &Value<'js>, room: &mut usize, depth: usize) -> rquickjs::Result<Self> {
        spend(ctx, room, 16)?;
        if depth == 0 {
            return Err(Exception::throw_type(ctx, "the value is nested too deeply, or contains itself"));
        }
        if value.is_null() || value.is_undefined() {
            return Ok(Self::Null);
        }
        if let Some(value) = value.as_bool() {
            return Ok(Self::Bool(value));
        }
        if let Some(value) = value.as_int() {
            return Ok(Self::Number(value.into()));
        }
        if let Some(value) = value.as_float() {
            return Ok(float(value));
        }
        if value.is_big_int() {
            // As a number it would be cut to 64 bits.
            let Coerced(digits) = Coerced::<String>::from_js(ctx, value.clone())?;
            let number = digits.parse().map(Self::BigInt);
            return number.map_err(|_| Exception::throw_range(ctx, "a bigint must lie within 64 bits, with a sign"));
        }
        if let Some(text) = value.as_string() {
            let text = well_formed(ctx, text)?;
            spend(ctx, room, text.len())?;
            return Ok(Self::Text(text));
        }
        if value.is_function() || value.is_symbol() {
            return Err(Exception::throw_type(ctx, "functions and symbols are no data"));
        }
        let Some(object) = value.as_object() else {
            return Err(Exception::throw_type(ctx, "this kind of value is no data"));
        };
        if let Some(bytes) = bytes_of(object) {
            spend(ctx, room, bytes.len())?;
            return Ok(Self::Bytes(bytes));
        }
        if let Some(array) = object.as_array() {
            let items = (0..array.len()).map(|index| Self::read(ctx, &array.get(index)?, room, depth - 1));
            return items.collect::<Result<_, _>>().map(Self::List);
        }
        let to_json: Value<'js> = object.get("toJSON")?;
        if let Some(to_json) = to_json.as_function() {
            let plain: Value<'js> = to_json.call((rquickjs::prelude::This(object.clone()),))?;
            return Self::read(ctx, &plain, room, depth - 1);
        }
        let mut entries = Vec::new();
        for property in object.props::<String, Value<'js>>() {
            let (key, value) = property?;
            if value.is_undefined() || value.is_function() {
                continue;
            }
            spend(ctx, room, key.len())?;
            entries.push((key, Self::read(ctx, &value, room, depth - 1)?));
        }
        Ok(Self::Object(entries))
    }
}

impl From<Json> for Data {
    fn from(value: Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(value) => Self::Number(value),
            Json::String(text) => Self::Text(text),
            Json::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Json::Object(entries) => Self::from(entries),
        }
    }
}

impl From<Map<String, Json>> for Data {
    fn from(entries: Map<String, Json>) -> Self {
        Self::Object(entries.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
    }
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

fn number_of<'js>(ctx: &Ctx<'js>, value: i64) -> Value<'js> {
    match i32::try_from(value) {
        Ok(value) => Value::new_int(ctx.clone(), value),
        #[expect(clippy::cast_precision_loss, reason = "within the numbers that are exact")]
        Err(_) => Value::new_float(ctx.clone(), value as f64),
    }
}

/// The text, with U+FFFD in the place of halves of surrogate pairs.
fn well_formed<'js>(ctx: &Ctx<'js>, text: &rquickjs::String<'js>) -> rquickjs::Result<String> {
    if let Ok(text) = text.to_string() {
        return Ok(text);
    }
    let prototype: Object<'js> = ctx.globals().get::<_, Object<'js>>("String")?.get("prototype")?;
    let whole: rquickjs::Function<'js> = prototype.get("toWellFormed")?;
    whole.call::<_, rquickjs::String<'js>>((rquickjs::prelude::This(text.clone()),))?.to_string()
}

/// Whole numbers are integers, as in JSON text; what JSON has no word for is null.
fn float(value: f64) -> Data {
    #[expect(clippy::cast_precision_loss, reason = "a bound that is exact")]
    let is_whole = value.fract() == 0.0 && value.abs() <= SAFE as f64;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
    if is_whole {
        return Data::Number((value as i64).into());
    }
    Number::from_f64(value).map_or(Data::Null, Data::Number)
}

fn spend(ctx: &Ctx<'_>, room: &mut usize, bytes: usize) -> rquickjs::Result<()> {
    match room.checked_sub(bytes) {
        Some(rest) => {
            *room = rest;
            Ok(())
        }
        None => Err(Exception::throw_range(ctx, "the value is too large")),
    }
}

/// A copy of what a `Uint8Array` or an `ArrayBuffer` has.
#[expect(unsafe_code, reason = "bytes of the engine are read where they are")]
pub(crate) fn bytes_of(object: &Object<'_>) -> Option<Vec<u8>> {
    if let Some(array) = object.as_typed_array::<u8>() {
        // SAFETY: no code of the engine runs until the copy is made.
        return unsafe { array.as_bytes() }.map(<[u8]>::to_vec);
    }
    // SAFETY: as above.
    unsafe { object.as_array_buffer()?.as_bytes() }.map(<[u8]>::to_vec)
}
