//! A body's members against an entity's fields.

use std::borrow::Cow;

use gatewright_base::{nearest, to_snake};
use gatewright_db::Value;

use super::error::{BodyError, Fault, FieldError, code};
use super::json::Members;
use crate::plan::{Field, Fields, Key};

/// How many errors one answer lists. A body of a megabyte can have a hundred thousand.
pub(crate) const MAX_ERRORS: usize = 100;

/// The values of a body, by field position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(crate) values: Vec<Option<Value>>,
    /// Which of them the body names; the others are defaults.
    pub(crate) named: Vec<bool>,
}

/// Why a body was refused, and the values in it that are right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InvalidBody {
    pub(crate) error: BodyError,
    pub(crate) values: Vec<Option<Value>>,
}

impl From<BodyError> for InvalidBody {
    fn from(error: BodyError) -> Self {
        Self { error, values: Vec::new() }
    }
}

/// Whether absent fields get their defaults or stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    Update,
}

impl Draft {
    /// Reads a body. All of its errors are returned, up to [`MAX_ERRORS`].
    ///
    /// After [`Mode::Create`] every field has a value, `Null` if it is absent, except the owner's, which the operation
    /// fills in.
    pub(crate) fn read(fields: &Fields, body: &[u8], mode: Mode) -> Result<Self, InvalidBody> {
        let Members(members) = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
        let mut draft = Self { values: vec![None; fields.len()], named: vec![false; fields.len()] };
        let mut errors = Vec::new();
        for (key, json) in members {
            if errors.len() == MAX_ERRORS {
                return Err(InvalidBody { error: BodyError::Invalid(errors), values: draft.values });
            }
            match fields.key(&key) {
                None => errors.push(unknown(fields, &key)),
                Some(Key::Ignored) => {}
                Some(Key::Field(index)) => {
                    let field = fields.at(index);
                    if std::mem::replace(&mut draft.named[index], true) {
                        errors.push(Fault::new(code::DUPLICATE, "is given more than once").at(&field.key));
                        continue;
                    }
                    match read_field(field, json) {
                        Ok(value) => draft.values[index] = Some(value),
                        Err(fault) => errors.push(fault.at(&field.key)),
                    }
                }
            }
        }
        if mode == Mode::Create {
            draft.complete(fields, &mut errors);
        }
        if errors.is_empty() {
            Ok(draft)
        } else {
            Err(InvalidBody { error: BodyError::Invalid(errors), values: draft.values })
        }
    }

    /// Sets the defaults of absent fields and reports missing required fields.
    fn complete(&mut self, fields: &Fields, errors: &mut Vec<FieldError>) {
        for (index, field) in fields.iter().enumerate() {
            if self.named[index] || field.stamped {
                continue;
            }
            match &field.default {
                Some(default) => self.values[index] = Some(default.clone()),
                None if field.required => errors.push(required().at(&field.key)),
                None => self.values[index] = Some(Value::Null),
            }
        }
    }
}

fn read_field(field: &Field, json: &str) -> Result<Value, Fault> {
    if json != "null" {
        return field.rule.read(json);
    }
    if field.required { Err(required()) } else { Ok(Value::Null) }
}

fn required() -> Fault {
    Fault::new(code::REQUIRED, "is required")
}

fn unknown(fields: &Fields, key: &str) -> FieldError {
    let name: Cow<'_, str> = if key.len() > 64 { key.chars().take(64).collect() } else { key.into() };
    let message = match nearest(&to_snake(&name), fields.writable_names()).and_then(|name| fields.wire_key(name)) {
        Some(meant) => format!("is not a field here; did you mean \"{meant}\"?"),
        None => "is not a field here".to_owned(),
    };
    Fault::new(code::UNKNOWN_FIELD, message).at(&name)
}

pub(crate) fn malformed(error: &serde_json::Error) -> BodyError {
    // For a value of another type at the start, serde_json has column 0.
    let place = format!("line {} column {}", error.line(), error.column().max(1));
    BodyError::Malformed(match error.classify() {
        serde_json::error::Category::Eof => format!("it ends too early, at {place}"),
        serde_json::error::Category::Data => format!("an unexpected value at {place}"),
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => format!("a mistake at {place}"),
    })
}
