use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::value::BodyError;

/// The body of a write: a JSON object with fields by their keys.
///
/// It is created from JSON as text, bytes or [`serde_json::json!`]. [`Body::of`] takes a program's own type.
///
/// ```
/// use gatewright_entities::operations::Body;
/// use serde_json::json;
///
/// let _: Body = r#"{"title":"First"}"#.into();
/// let _: Body = json!({ "title": "First" }).into();
/// ```
pub struct Body<'a>(Cow<'a, [u8]>);

impl Body<'static> {
    /// The fields of a value that serializes as an object. Fails with [`Error::Body`] if it cannot be written as JSON.
    pub fn of(value: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::to_vec(value);
        json.map(|json| Self(Cow::Owned(json))).map_err(|error| BodyError::Malformed(error.to_string()).into())
    }
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> From<&'a [u8]> for Body<'a> {
    fn from(json: &'a [u8]) -> Self {
        Self(Cow::Borrowed(json))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Body<'a> {
    fn from(json: &'a [u8; N]) -> Self {
        Self(Cow::Borrowed(json))
    }
}

impl<'a> From<&'a Bytes> for Body<'a> {
    fn from(json: &'a Bytes) -> Self {
        Self(Cow::Borrowed(json))
    }
}

impl<'a> From<&'a Vec<u8>> for Body<'a> {
    fn from(json: &'a Vec<u8>) -> Self {
        Self(Cow::Borrowed(json))
    }
}

impl<'a> From<&'a str> for Body<'a> {
    fn from(json: &'a str) -> Self {
        Self(Cow::Borrowed(json.as_bytes()))
    }
}

impl<'a> From<&'a String> for Body<'a> {
    fn from(json: &'a String) -> Self {
        Self(Cow::Borrowed(json.as_bytes()))
    }
}

impl From<Value> for Body<'_> {
    fn from(json: Value) -> Self {
        Self(Cow::Owned(json.to_string().into_bytes()))
    }
}

impl From<&Value> for Body<'_> {
    fn from(json: &Value) -> Self {
        Self(Cow::Owned(json.to_string().into_bytes()))
    }
}

impl fmt::Debug for Body<'_> {
    /// Omits the JSON: it is the users' data, which must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("bytes", &self.0.len()).finish_non_exhaustive()
    }
}
