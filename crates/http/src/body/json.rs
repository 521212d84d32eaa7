use std::fmt;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use gatewright_base::JsonCase;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::fields::Fields;
use super::patch::{self, PatchJson};
use super::{ContentType, fields};
use crate::Problem;

/// A JSON object as a `T`, for routes that accept only JSON.
///
/// A `PATCH` may be a merge patch, which means the same for fields without members. Keys of the object are accepted in camelCase and `snake_case`; `T` spells its fields in `snake_case`. Fails with 415 for
/// another content type, 413 over the body limit, 400 with line and column if it is not a JSON object (nesting is limited),
/// and 422 with the field's name if it is not a `T`.
#[derive(Debug, Clone)]
pub struct JsonBody<T>(pub T);

/// The bytes of a JSON body within the limit, not parsed: for handlers with their own parser.
///
/// Fails with 415 for another content type, with `Accept-Patch` for a `PATCH`; with 413 over the body limit and 400 without a
/// body.
#[derive(Clone)]
pub struct RawJson(pub Bytes);

impl fmt::Debug for RawJson {
    /// Shows only the length, because the content may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let case = request.extensions().get::<JsonCase>().copied().unwrap_or_default();
        // Its fields are flat: a merge patch of them is what a PATCH is.
        let PatchJson { bytes, .. } = PatchJson::from_request(request, state).await?;
        let value = parse_object(&bytes)?.parse(case)?;
        Ok(Self(value))
    }
}

impl<S: Sync> FromRequest<S> for RawJson {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if ContentType::of(request.headers()) != ContentType::Json {
            return Err(patch::refused(request.method(), "application/json"));
        }
        patch::whole(request).await.map(Self)
    }
}

/// The members of a JSON object. `serde_json` bounds the nesting at 128.
pub(super) fn parse_object(bytes: &[u8]) -> Result<Fields, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let fields = Object.deserialize(&mut deserializer).map_err(|error| malformed(&error))?;
    deserializer.end().map_err(|error| malformed(&error))?;
    Ok(fields)
}

fn malformed(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let what = match error.classify() {
        serde_json::error::Category::Data => {
            let text = error.to_string();
            let is_other_value = text.contains(", expected a JSON object");
            // Our own sentences, from `Object` below; serde_json appends the position itself.
            return Problem::bad_request(if is_other_value {
                "the request body is not a JSON object".to_owned()
            } else {
                text
            });
        }
        serde_json::error::Category::Eof => "ends too early",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "is not valid JSON",
    };
    Problem::bad_request(format!("the request body {what} at line {line} column {column}"))
}

/// Reads an object into [`Fields`], refusing a key that comes twice.
struct Object;

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Fields;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some((key, value)) = members.next_entry::<String, Value>()? {
            fields.insert(key, value).map_err(|fields::Duplicate(name)| {
                de::Error::custom(format!("the field \"{}\" is given more than once", fields::clip(&name)))
            })?;
        }
        Ok(fields)
    }
}
