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
pub struct Body<'a> {
    json: Cow<'a, [u8]>,
    is_merge_patch: bool,
}

impl Body<'static> {
    /// The fields of a value that serializes as an object. Fails with [`Error::Body`] if it cannot be written as JSON.
    pub fn of(value: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::to_vec(value);
        json.map(|json| Cow::<[u8]>::Owned(json).into()).map_err(|error| BodyError::Malformed(error.to_string()).into())
    }
}

impl Body<'_> {
    /// Takes the JSON as a merge patch (RFC 7396): an object for a JSON field is merged into what is stored, and null removes
    /// a member of it. For an update; a record that is created has nothing to merge with.
    pub fn merge_patch(self, is_merge_patch: bool) -> Self {
        Self { is_merge_patch, ..self }
    }

    pub(super) fn is_merge_patch(&self) -> bool {
        self.is_merge_patch
    }
}

impl<'a> From<Cow<'a, [u8]>> for Body<'a> {
    fn from(json: Cow<'a, [u8]>) -> Self {
        Self { json, is_merge_patch: false }
    }
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.json
    }
}

impl<'a> From<&'a [u8]> for Body<'a> {
    fn from(json: &'a [u8]) -> Self {
        Cow::<[u8]>::Borrowed(json).into()
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Body<'a> {
    fn from(json: &'a [u8; N]) -> Self {
        Cow::<[u8]>::Borrowed(json).into()
    }
}

impl<'a> From<&'a Bytes> for Body<'a> {
    fn from(json: &'a Bytes) -> Self {
        Cow::<[u8]>::Borrowed(json).into()
    }
}

impl<'a> From<&'a Vec<u8>> for Body<'a> {
    fn from(json: &'a Vec<u8>) -> Self {
        Cow::<[u8]>::Borrowed(json).into()
    }
}

impl<'a> From<&'a str> for Body<'a> {
    fn from(json: &'a str) -> Self {
        Cow::Borrowed(json.as_bytes()).into()
    }
}

impl<'a> From<&'a String> for Body<'a> {
    fn from(json: &'a String) -> Self {
        Cow::Borrowed(json.as_bytes()).into()
    }
}

impl From<Value> for Body<'_> {
    fn from(json: Value) -> Self {
        Cow::<[u8]>::Owned(json.to_string().into_bytes()).into()
    }
}

impl From<&Value> for Body<'_> {
    fn from(json: &Value) -> Self {
        Cow::<[u8]>::Owned(json.to_string().into_bytes()).into()
    }
}

impl fmt::Debug for Body<'_> {
    /// Omits the JSON: it is the users' data, which must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("bytes", &self.json.len()).finish_non_exhaustive()
    }
}
