//! Reads the envelope of several writes, and the members of its items that are no fields.

use gatewright_http::entity_tag;
use serde_json::value::RawValue;

use super::batch::MAX_ITEMS;
use super::precondition::IfMatch;
use crate::error::Error;
use crate::value::body::{MAX_ERRORS, malformed};
use crate::value::json::Members;
use crate::value::{BodyError, FieldError, code};

/// The entries of the array that is the body's one member, and the name of this member, which is one of `keys`.
pub(super) fn parts<'a>(body: &'a [u8], keys: &[&'static str]) -> Result<(&'static str, Vec<&'a RawValue>), Error> {
    let Members(members) = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    let expected = keys.iter().map(|key| format!("{{\"{key}\": […]}}")).collect::<Vec<_>>().join(" or ");
    let first = keys.first().copied().unwrap_or_default();
    let mut errors = Vec::new();
    let mut list = None;
    for (name, value) in members {
        if errors.len() == MAX_ERRORS {
            return Err(Error::Body(BodyError::Invalid(errors)));
        }
        match keys.iter().find(|key| **key == name) {
            None => {
                let message = format!("is not part of a batch, which is {expected}");
                errors.push(field(&shortened(&name), code::UNKNOWN_FIELD, message));
            }
            Some(key) => {
                if list.replace((*key, value)).is_some() {
                    errors.push(field(key, code::DUPLICATE, "is given more than once"));
                }
            }
        }
    }
    let (key, parts): (&'static str, Vec<&'a RawValue>) = match list {
        None => {
            errors.push(field(first, code::REQUIRED, "is required"));
            (first, Vec::new())
        }
        Some((key, list)) => {
            let parts = serde_json::from_str(list).unwrap_or_else(|_| {
                errors.push(field(key, code::TYPE, "must be an array"));
                Vec::new()
            });
            (key, parts)
        }
    };
    if parts.len() > MAX_ITEMS {
        errors.push(field(key, code::MAX, format!("must have at most {MAX_ITEMS} entries")));
    }
    if errors.is_empty() { Ok((key, parts)) } else { Err(Error::Body(BodyError::Invalid(errors))) }
}

/// An item of a batch of changes: its id, its condition, and the rest as a body.
pub(super) struct Target {
    pub(super) id: String,
    pub(super) if_match: Option<IfMatch>,
    pub(super) body: Vec<u8>,
}

impl Target {
    pub(super) fn read(item: &[u8]) -> Result<Self, Error> {
        let Members(members) = serde_json::from_slice(item).map_err(|error| malformed(&error))?;
        let is_condition = |(key, _): &(std::borrow::Cow<'_, str>, &str)| is_if_match(key);
        let id = id(one("id", members.iter().filter(|(key, _)| key == "id").map(|(_, value)| *value))?)?;
        let condition = one("ifMatch", members.iter().filter(|member| is_condition(member)).map(|(_, value)| *value))?;
        let body = match condition {
            None => item.to_vec(),
            Some(_) => {
                object(members.iter().filter(|member| !is_condition(member)).map(|(key, value)| (&**key, *value)))
            }
        };
        Ok(Self { id, if_match: condition.map(if_match).transpose()?.flatten(), body })
    }

    /// An item of a batch of deletions, which has an id and perhaps a condition.
    pub(super) fn of_deletion(item: &[u8]) -> Result<Self, Error> {
        let Members(members) = serde_json::from_slice(item).map_err(|error| malformed(&error))?;
        let known = |key: &str| key == "id" || is_if_match(key) || key == entity_tag::KEY;
        match members.iter().find(|(key, _)| !known(key)) {
            Some((key, _)) => Err(invalid(
                &shortened(key),
                code::UNKNOWN_FIELD,
                "is not part of a deletion, which is {\"id\", \"ifMatch\"}",
            )),
            None => Self::read(item),
        }
    }
}

/// Whether this is the name of a condition.
pub(super) fn is_if_match(key: &str) -> bool {
    matches!(key, "ifMatch" | "if_match")
}

/// The condition of an item: what the header would be, or null for none.
pub(super) fn if_match(json: &str) -> Result<Option<IfMatch>, Error> {
    if json == "null" {
        return Ok(None);
    }
    let text: Result<String, _> = serde_json::from_str(json);
    let text = text.map_err(|_| invalid("ifMatch", code::TYPE, "must be a text: an entity tag, or *"))?;
    // Answers of tools have tags without the quotes of the header.
    let is_bare = !text.contains('"') && text.trim() != "*";
    Ok(Some(if is_bare { IfMatch::Tags(vec![format!("\"{text}\"")]) } else { IfMatch::parse(&text) }))
}

/// The only one of some values.
pub(super) fn one<'a>(name: &str, mut values: impl Iterator<Item = &'a str>) -> Result<Option<&'a str>, Error> {
    let first = values.next();
    if values.next().is_some() {
        return Err(invalid(name, code::DUPLICATE, "is given more than once"));
    }
    Ok(first)
}

/// The id of a record.
pub(super) fn id(json: Option<&str>) -> Result<String, Error> {
    text("id", json)
}

/// The value of a member that must be a text.
pub(super) fn text(name: &str, json: Option<&str>) -> Result<String, Error> {
    let json = json.ok_or_else(|| invalid(name, code::REQUIRED, "is required"))?;
    serde_json::from_str(json).map_err(|_| invalid(name, code::TYPE, "must be a text"))
}

/// A JSON object of these members.
pub(super) fn object<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut body = vec![b'{'];
    for (key, value) in members {
        let comma = if body.len() > 1 { "," } else { "" };
        body.extend_from_slice(format!("{comma}{}:{value}", serde_json::Value::from(key)).as_bytes());
    }
    body.push(b'}');
    body
}

pub(super) fn invalid(name: &str, code: &'static str, message: impl Into<String>) -> Error {
    Error::Body(BodyError::Invalid(vec![field(name, code, message)]))
}

pub(super) fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

fn field(name: &str, code: &'static str, message: impl Into<String>) -> FieldError {
    FieldError { field: name.to_owned(), code, message: message.into() }
}
