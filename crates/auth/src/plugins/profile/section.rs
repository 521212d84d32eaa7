use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_base::to_snake;
use gatewright_http::{Problem, Submission};
use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use crate::profiles::{ChangeError, InputKind, ProfileInput, Profiles};
use crate::screens::account::{Account, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::web::{Visitor, guarded};

/// The profile of the account.
pub(crate) struct ProfileSection {
    profiles: Profiles,
}

#[derive(Serialize)]
struct Context<'a> {
    inputs: Vec<Input<'a>>,
    action: String,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Input<'a> {
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

impl ProfileSection {
    pub(crate) fn new(profiles: Profiles) -> Self {
        Self { profiles }
    }
}

#[async_trait]
impl Section for ProfileSection {
    fn place(&self) -> Place {
        Place::Profile
    }

    fn anchor(&self) -> &'static str {
        "profile"
    }

    fn heading(&self) -> &'static str {
        "account.profile.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("profile-changed", "account.profile.changed")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let inputs = self.profiles.inputs();
        if inputs.is_empty() {
            return Ok(None);
        }
        let stored = self.profiles.of(&visit.session.user().id).await?;
        let context = Context {
            inputs: inputs.iter().map(|input| shown(input, stored.get(&input.key))).collect(),
            action: format!("{PATH}/profile#{}", self.anchor()),
            csrf: visit.csrf,
            next: None,
        };
        fragment("account/profile.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let change = guarded(&account.core, None, post(change));
        Router::new().route("/account/profile", change).with_state(SectionState::new(self, account))
    }
}

async fn change(
    State(state): State<SectionState<ProfileSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<BTreeMap<String, String>>,
) -> Response {
    let (profiles, user) = (&state.section.profiles, &owner.0.user().id);
    let inputs = profiles.inputs();
    let changed = async {
        let changes = changes(&inputs, &profiles.of(user).await?, &submission.value);
        let body = json!({ "profile": changes }).to_string();
        profiles.change(&state.account.core.audit, user, body.as_bytes(), &visitor.client).await
    };
    match changed.await {
        Ok(()) => state.done("profile-changed"),
        Err(ChangeError::Refused(problem)) => state.failed(&visitor, &owner, labelled(problem, &inputs)).await,
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}

/// Apart from the names that every form may have.
fn name_of(input: &ProfileInput) -> String {
    to_snake(&format!("profile_{}", input.key))
}

fn shown<'a>(input: &'a ProfileInput, stored: Option<&Value>) -> Input<'a> {
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
fn changes(
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

/// The same problem in the words of the form.
fn labelled(problem: Problem, inputs: &[ProfileInput]) -> Problem {
    let line = |error: &gatewright_http::FieldError| {
        let input = inputs.iter().find(|input| input.key == error.field);
        format!("{}: {}", input.map_or(&*error.field, |input| &input.label), error.message)
    };
    let lines: Vec<_> = problem.errors().iter().map(line).collect();
    if lines.is_empty() { problem } else { Problem::unprocessable(lines.join("; ")).with_code("validation_failed") }
}

#[cfg(test)]
mod tests {
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
