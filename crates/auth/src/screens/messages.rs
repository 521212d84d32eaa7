//! Where the messages of a refused form stand: each at its field, the rest above the form.

use std::collections::BTreeMap;

use gatewright_http::Problem;
use serde::Serialize;

/// The messages of a form, for templates: `problem` above it, and `problems` by the name of a field (`message.html`).
#[derive(Debug, Default, Serialize)]
pub(crate) struct Messages {
    problem: Option<String>,
    problems: BTreeMap<String, String>,
}

/// The fields that the refusals without a field are about.
const FIELDS_OF_CODES: &[(&str, &str)] =
    &[("invalid_credentials", "password"), ("email_taken", "email"), ("invalid_code", "code")];

impl Messages {
    /// Those of a form that has these `fields`.
    pub(crate) fn of<'a>(problem: Option<&Problem>, fields: impl IntoIterator<Item = &'a str>) -> Self {
        let Some(problem) = problem else { return Self::default() };
        let fields: Vec<&str> = fields.into_iter().collect();
        let mut messages = Self::default();
        for (field, message) in problem.messages() {
            let of_code = || FIELDS_OF_CODES.iter().find(|(code, _)| *code == problem.code()).map(|(_, field)| *field);
            let field = field.or_else(of_code).filter(|field| fields.contains(field));
            match field {
                Some(field) => append(messages.problems.entry(field.to_owned()).or_default(), &message),
                None => append(messages.problem.get_or_insert_default(), &message),
            }
        }
        messages
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push_str(if text.ends_with('.') { " " } else { "; " });
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stands_at_its_field_if_the_form_has_it() {
        let problem = Problem::unprocessable("no")
            .with_field("email", "x", "one")
            .with_field("email", "x", "two")
            .with_field("next", "x", "three");
        let found = Messages::of(Some(&problem), ["email", "password"]);
        assert_eq!((found.problem.as_deref(), &*found.problems["email"]), (Some("three"), "one; two"));
        let wrong = Problem::unauthorized("no").with_code("invalid_credentials");
        assert!(Messages::of(Some(&wrong), ["email", "password"]).problems.contains_key("password"));
        assert!(Messages::of(Some(&wrong), ["email"]).problem.is_some());
        assert!(Messages::of(None, ["email"]).problem.is_none());
    }
}
