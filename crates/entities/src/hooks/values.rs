use std::sync::Arc;

use gatewright_base::time;
use gatewright_db::Value;

use crate::error::Error;
use crate::plan::{Field, Plan};
use crate::value::body::MAX_ERRORS;
use crate::value::{BodyError, FieldError, code};

/// The fields that a write sets, for a hook to read and to change.
///
/// Fields are named as declared. A value is checked against the field's rules when it is set. `hidden` and `read_only`
/// fields can be set too; the fields of the owner and the tenant cannot.
#[derive(Debug)]
pub struct Values {
    plan: Arc<Plan>,
    given: Vec<Option<Value>>,
    /// Which of them a hook has set.
    set: Vec<bool>,
}

impl Values {
    pub(crate) fn new(plan: &Arc<Plan>, values: Vec<Option<Value>>) -> Self {
        let set = vec![false; plan.fields.len()];
        Self { plan: plan.clone(), given: values, set }
    }

    /// The entity.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The fields that the write sets, as declared, with their values as JSON.
    pub fn iter(&self) -> impl Iterator<Item = (&Field, serde_json::Value)> {
        let pairs = self.plan.fields.iter().zip(&self.given);
        pairs.filter_map(|(field, value)| Some((field, json(value.as_ref()?))))
    }

    /// The value that the write sets for `field`, as JSON; `None` if it does not set the field, or if there is no such
    /// field.
    pub fn get(&self, field: &str) -> Option<serde_json::Value> {
        let (index, _) = self.find(field)?;
        self.given[index].as_ref().map(json)
    }

    /// The field with this key on the wire, hidden or not, as declared.
    pub fn column_of(&self, key: &str) -> Option<&str> {
        self.plan.fields.iter().find(|field| field.key == key).map(Field::column)
    }

    /// Sets `field`. An invalid value is a 422 for the caller. An unknown field, or one that the service sets itself,
    /// is an error of the hook.
    pub fn set(&mut self, field: &str, value: impl Into<serde_json::Value>) -> Result<(), Error> {
        let Some((index, found)) = self.find(field).filter(|(_, field)| !field.stamped) else {
            return Err(Error::hook(format!("a hook sets \"{field}\", which it cannot set")));
        };
        let read = match value.into() {
            serde_json::Value::Null if found.required => return Err(required([found])),
            serde_json::Value::Null => Value::Null,
            value => found.rule.read(&value.to_string()).map_err(|fault| invalid(vec![fault.at(&found.key)]))?,
        };
        self.given[index] = Some(read);
        self.set[index] = true;
        Ok(())
    }

    /// Ignores the value that the caller sent for `field`. The field stays unchanged; a new record has no value for it.
    pub fn leave(&mut self, field: &str) {
        if let Some((index, _)) = self.find(field).filter(|(_, field)| !field.stamped) {
            self.given[index] = None;
            self.set[index] = true;
        }
    }

    pub(crate) fn into_inner(self) -> Vec<Option<Value>> {
        self.given
    }

    /// Which fields a hook has set.
    pub(crate) fn set_by_hooks(&self) -> Vec<bool> {
        self.set.clone()
    }

    /// What is left of the errors of a body: those of fields that no hook has set.
    pub(crate) fn left_of(&self, invalid: Option<&BodyError>) -> Option<BodyError> {
        let BodyError::Invalid(errors) = invalid? else { return invalid.cloned() };
        // What was not read, or is given twice, no hook can make right.
        if errors.len() >= MAX_ERRORS {
            return invalid.cloned();
        }
        let is_left = |error: &&FieldError| {
            error.code == code::DUPLICATE || !self.fields_set().any(|field| field.key == error.field)
        };
        let errors: Vec<FieldError> = errors.iter().filter(is_left).cloned().collect();
        (!errors.is_empty()).then_some(BodyError::Invalid(errors))
    }

    fn fields_set(&self) -> impl Iterator<Item = &Field> {
        self.plan.fields.iter().zip(&self.set).filter(|(_, set)| **set).map(|(field, _)| field)
    }

    /// The values of a whole record: no required value may be missing.
    pub(crate) fn complete(self) -> Result<Vec<Option<Value>>, Error> {
        let given = |value: &Option<Value>| value.as_ref().is_some_and(|value| *value != Value::Null);
        let pairs = self.plan.fields.iter().zip(&self.given);
        let missing: Vec<&Field> =
            pairs.filter(|(field, value)| field.required && !given(value)).map(|(field, _)| field).collect();
        if missing.is_empty() { Ok(self.given) } else { Err(required(missing)) }
    }

    fn find(&self, name: &str) -> Option<(usize, &Field)> {
        self.plan.fields.iter().enumerate().find(|(_, field)| field.column == name)
    }
}

fn required<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Error {
    let error = |field: &Field| FieldError {
        field: field.key.clone(),
        code: code::REQUIRED,
        message: "is required".to_owned(),
    };
    invalid(fields.into_iter().map(error).collect())
}

fn invalid(errors: Vec<FieldError>) -> Error {
    Error::Body(BodyError::Invalid(errors))
}

/// A checked value as clients would see it.
fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null | Value::Bytes(_) => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Json(json) => serde_json::from_str(json.as_str()).unwrap_or_default(),
        Value::Text(text) => text.as_str().into(),
        Value::Time(at) => time::format(*at).into(),
    }
}
