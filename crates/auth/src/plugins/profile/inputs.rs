//! The fields of profiles as inputs of forms: on the account page, at registration, and after a sign-in that created an
//! account without them.

use std::collections::BTreeMap;

use gatewright_base::to_snake;
use gatewright_http::{FieldError, Problem};
use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::profiles::{InputKind, ProfileInput};

/// An input of a form.
#[derive(Serialize)]
pub(crate) struct Input<'a> {
    name: String,
    label: &'a str,
    required: bool,
    kind: &'static str,
    /// The most characters of a text.
    max: Option<usize>,
    choices: &'a [String],
    /// The stored value in the form of the input.
    value: String,
    checked: bool,
}

/// Apart from the names that every form may have.
fn name_of(input: &ProfileInput) -> String {
    to_snake(&format!("profile_{}", input.key))
}

impl Input<'_> {
    /// Its name in forms.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The input with the value that it begins with.
pub(crate) fn shown<'a>(input: &'a ProfileInput, stored: Option<&Value>) -> Input<'a> {
    let (kind, max, choices): (_, _, &[String]) = match &input.kind {
        InputKind::Line { max } => ("line", *max, &[]),
        InputKind::Text { max } => ("text", *max, &[]),
        InputKind::Number => ("number", None, &[]),
        InputKind::Day => ("day", None, &[]),
        InputKind::Flag => ("flag", None, &[]),
        InputKind::Choice(choices) => ("choice", None, choices),
    };
    let value = match stored {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => String::new(),
    };
    let checked = stored == Some(&Value::Bool(true));
    Input { name: name_of(input), label: &input.label, required: input.required, kind, max, choices, value, checked }
}

/// The changes of the form: fields that keep their stored value are left out.
pub(crate) fn changes(
    inputs: &[ProfileInput],
    stored: &Map<String, Value>,
    form: &BTreeMap<String, String>,
) -> Map<String, Value> {
    let mut changes = Map::new();
    for input in inputs {
        let (given, before) = (form.get(&name_of(input)), stored.get(&input.key));
        let value = match (&input.kind, given) {
            // A box that is not checked is not sent.
            (InputKind::Flag, None) if before != Some(&Value::Bool(true)) => continue,
            (InputKind::Flag, given) => Value::Bool(given.is_some()),
            (_, None) => continue,
            (_, Some(text)) if text.trim().is_empty() => Value::Null,
            // The declared type refuses text that is not a number.
            (InputKind::Number, Some(text)) => {
                text.trim().parse::<Number>().map_or_else(|_| text.as_str().into(), Value::Number)
            }
            // Browsers end the lines of a form with both characters.
            (InputKind::Text { .. }, Some(text)) => text.replace("\r\n", "\n").into(),
            (InputKind::Line { .. } | InputKind::Day | InputKind::Choice(_), Some(text)) => text.as_str().into(),
        };
        if before.unwrap_or(&Value::Null) != &value {
            changes.insert(input.key.clone(), value);
        }
    }
    changes
}

/// The same problem with the names of the form's inputs.
pub(crate) fn labelled(problem: Problem, inputs: &[ProfileInput]) -> Problem {
    let errors = problem.errors().iter().map(|error| {
        let field = error.field.as_deref().unwrap_or_default();
        match inputs.iter().find(|input| input.key == field) {
            Some(input) => FieldError { field: Some(name_of(input).into()), ..error.clone() },
            None => error.clone(),
        }
    });
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() { problem } else { Problem::unprocessable("validation failed").with_fields(errors) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_changes_only_fields_that_differ() {
        let input = |key: &str, kind| ProfileInput { key: key.to_owned(), label: String::new(), required: false, kind };
        let inputs = [
            input("displayName", InputKind::Line { max: Some(20) }),
            input("bio", InputKind::Text { max: None }),
            input("age", InputKind::Number),
            input("subscribed", InputKind::Flag),
            input("theme", InputKind::Choice(vec!["light".to_owned(), "dark".to_owned()])),
        ];
        let stored = json!({ "displayName": "Ann", "bio": "a\nb", "age": 5, "subscribed": true, "theme": null });
        let stored = stored.as_object().unwrap();
        let same = [
            ("profile_display_name", "Ann"),
            ("profile_bio", "a\r\nb"),
            ("profile_age", "5"),
            ("profile_subscribed", "true"),
            ("profile_theme", ""),
        ];
        for (name, text, expected) in [
            ("", "", json!({})),
            ("profile_display_name", "", json!({ "displayName": null })),
            ("profile_display_name", "Bea", json!({ "displayName": "Bea" })),
            ("profile_age", " 6 ", json!({ "age": 6 })),
            ("profile_age", "six", json!({ "age": "six" })),
            ("profile_theme", "dark", json!({ "theme": "dark" })),
            ("profile_roles", "admin", json!({})),
        ] {
            let mut form: BTreeMap<_, _> =
                same.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            form.insert(name.to_owned(), text.to_owned());
            assert_eq!(Value::Object(changes(&inputs, stored, &form)), expected, "{name}={text}");
        }
        let unchecked = changes(&inputs, stored, &BTreeMap::new());
        assert_eq!(Value::Object(unchecked), json!({ "subscribed": false }), "a box is off; what is not sent stays");
        assert_eq!(Value::Object(changes(&inputs, &Map::new(), &BTreeMap::new())), json!({}));
    }
}
