//! A body's members against an entity's fields.

use std::borrow::Cow;

use gatewright_base::{nearest, to_snake};
use gatewright_db::Value;
use uuid::{Uuid, Variant};

use super::error::{BodyError, Fault, FieldError, code};
use super::json::Members;
use super::operator::Operator;
use super::types::Type;
use crate::plan::{Field, Fields, Key};
use crate::readable::Readable;

/// How many errors one answer lists. A body of a megabyte can have a hundred thousand.
pub(crate) const MAX_ERRORS: usize = 100;

/// The values of a body, by field position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(crate) values: Vec<Option<Value>>,
    /// Which of them the body names; the others are defaults.
    pub(crate) named: Vec<bool>,
    /// The id of a new record, if the body brings one.
    pub(crate) id: Option<String>,
    /// The changes that depend on what is stored. Their fields have no values.
    pub(crate) operators: Vec<(usize, Operator)>,
}

/// Why a body was refused, and the values in it that are right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InvalidBody {
    pub(crate) error: BodyError,
    pub(crate) values: Vec<Option<Value>>,
    /// Which fields the body names.
    pub(crate) named: Vec<bool>,
    pub(crate) id: Option<Box<str>>,
    pub(crate) operators: Vec<(usize, Operator)>,
}

impl From<BodyError> for InvalidBody {
    fn from(error: BodyError) -> Self {
        Self { error, values: Vec::new(), named: Vec::new(), id: None, operators: Vec::new() }
    }
}

/// Whether absent fields get their defaults or stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    Update,
    /// A record that is created unless it exists: operators apply to nothing.
    Upsert,
}

impl Draft {
    /// Reads a body. All of its errors are returned, up to [`MAX_ERRORS`].
    ///
    /// After [`Mode::Create`] and [`Mode::Upsert`] every field has a value, `Null` if it is absent, except the owner's, which the operation
    /// fills in.
    pub(crate) fn read(fields: &Fields, readable: &Readable, body: &[u8], mode: Mode) -> Result<Self, InvalidBody> {
        let Members(members) = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
        let mut draft = Self {
            values: vec![None; fields.len()],
            named: vec![false; fields.len()],
            id: None,
            operators: Vec::new(),
        };
        let mut errors = Vec::new();
        for (key, json) in members {
            if errors.len() == MAX_ERRORS {
                return Err(draft.refused(errors));
            }
            match fields.key(&key, readable) {
                None => errors.push(unknown(fields, readable, &key)),
                Some(Key::Id) if mode != Mode::Update => match new_id(json) {
                    Ok(_) if draft.id.is_some() => errors.push(twice().at(&key)),
                    Ok(id) => draft.id = id,
                    Err(fault) => errors.push(fault.at(&key)),
                },
                Some(Key::Ignored | Key::Id) => {}
                Some(Key::Field(index)) => {
                    let field = fields.at(index);
                    if std::mem::replace(&mut draft.named[index], true) {
                        errors.push(twice().at(&field.key));
                        continue;
                    }
                    // What an operator results in would reveal the value that the caller may not read.
                    let takes_operators = fields.take_operators() && readable.has(index);
                    match read_changed(takes_operators, field, json, mode) {
                        Ok(Change::Value(value)) => draft.values[index] = Some(value),
                        Ok(Change::By(operator)) => draft.operators.push((index, operator)),
                        Err(fault) => errors.push(fault.at(&field.key)),
                    }
                }
            }
        }
        if mode != Mode::Update {
            draft.complete(fields, readable, &mut errors);
        }
        if errors.is_empty() { Ok(draft) } else { Err(draft.refused(errors)) }
    }

    fn refused(self, errors: Vec<FieldError>) -> InvalidBody {
        let Self { values, named, id, operators } = self;
        let id = id.map(String::into_boxed_str);
        InvalidBody { error: BodyError::Invalid(errors), values, named, id, operators }
    }

    /// Sets the defaults of absent fields and reports missing required fields.
    fn complete(&mut self, fields: &Fields, readable: &Readable, errors: &mut Vec<FieldError>) {
        for (index, field) in fields.iter().enumerate() {
            if self.named[index] || field.stamped {
                continue;
            }
            match &field.default {
                Some(default) => self.values[index] = Some(default.clone()),
                None if field.required && field.word.is_none() => {
                    errors.push(missing(field, readable.has(index)));
                }
                None => self.values[index] = Some(Value::Null),
            }
        }
    }
}

/// What a member of a body asks for.
enum Change {
    Value(Value),
    By(Operator),
}

fn read_changed(takes_operators: bool, field: &Field, json: &str, mode: Mode) -> Result<Change, Fault> {
    let operator = if takes_operators && mode != Mode::Create { Operator::read(&field.rule, json) } else { None };
    match operator {
        Some(operator) if mode == Mode::Upsert => operator?.apply(&field.rule, None).map(Change::Value),
        Some(operator) => operator.map(Change::By),
        None => read_field(field, json).map(Change::Value),
    }
}

fn read_field(field: &Field, json: &str) -> Result<Value, Fault> {
    // A list is never null: null is a value of another type.
    if json != "null" || matches!(field.rule, Type::List(_)) {
        return field.rule.read(json);
    }
    if field.required { Err(required()) } else { Ok(Value::Null) }
}

/// The id that a client chose, in lower case. Null counts as absent.
fn new_id(json: &str) -> Result<Option<String>, Fault> {
    if json == "null" {
        return Ok(None);
    }
    let wrong = || Fault::new(code::TYPE, "must be a UUID of version 7 or 4");
    let text: String = serde_json::from_str(json).map_err(|_| wrong())?;
    let id = Uuid::try_parse(&text).ok().filter(|id| {
        // Other spellings of a UUID have another length.
        text.len() == 36 && matches!(id.get_version_num(), 4 | 7) && id.get_variant() == Variant::RFC4122
    });
    id.map(|id| Some(id.to_string())).ok_or_else(wrong)
}

fn twice() -> Fault {
    Fault::new(code::DUPLICATE, "is given more than once")
}

/// The error of a required field without a value. A caller who knows no such field does not learn its name.
pub(crate) fn missing(field: &Field, is_known: bool) -> FieldError {
    if is_known {
        return required().at(&field.key);
    }
    Fault::new(code::REQUIRED, "a field that this caller does not know is required").at("")
}

pub(crate) fn required() -> Fault {
    Fault::new(code::REQUIRED, "is required")
}

/// The error of a key that is no field for this caller.
pub(crate) fn unknown(fields: &Fields, readable: &Readable, key: &str) -> FieldError {
    let name: Cow<'_, str> = if key.len() > 64 { key.chars().take(64).collect() } else { key.into() };
    let message =
        match nearest(&to_snake(&name), fields.writable_names(readable)).and_then(|name| fields.wire_key(name)) {
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
