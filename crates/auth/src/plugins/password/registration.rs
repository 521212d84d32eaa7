//! The fields of a registration.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use gatewright_base::{JsonCase, Secret};
use gatewright_http::{FieldError, Problem};
use http::StatusCode;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::email::EmailAddress;
use crate::password::{NewPassword, PasswordOwner, Passwords, WeakPassword};
use crate::plugins::profile::inputs::{changes, labelled};
use crate::profiles::Profiles;

/// The fields of a registration. Each is read on its own, so that one answer names everything that is wrong. `roles` is
/// ignored, as is the `_csrf` that was checked before.
#[derive(Debug, Default)]
pub(super) struct Registration {
    email: Given<String>,
    password: Given<Secret>,
    invite: Given<Option<Secret>>,
    profile: Given<Value>,
    /// The fields of a profile in a form, under their names there.
    inputs: BTreeMap<String, String>,
    unknown: Vec<String>,
}

/// A registration that breaks no rule.
pub(super) struct Accepted {
    pub(super) email: EmailAddress,
    pub(super) password: NewPassword,
    /// The token of an invitation.
    pub(super) invite: Option<Secret>,
    /// The profile, as it is stored.
    pub(super) profile: Option<String>,
}

/// The error of one field, by its name in `snake_case`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    field: String,
    code: Cow<'static, str>,
    message: String,
}

#[derive(Debug, Default)]
enum Given<T> {
    #[default]
    Missing,
    /// The value has the wrong type. Contains the parser's message.
    Mistyped(String),
    Value(T),
}

impl Registration {
    /// The typed address, for a form that is shown again.
    pub(super) fn typed_email(&self) -> &str {
        match &self.email {
            Given::Value(email) => email,
            Given::Missing | Given::Mistyped(_) => "",
        }
    }

    /// The token of an invitation, for a form that is shown again.
    pub(super) fn typed_invite(&self) -> Option<Secret> {
        match &self.invite {
            Given::Value(invite) => invite.clone(),
            Given::Missing | Given::Mistyped(_) => None,
        }
    }

    /// The typed fields of the profile, for a form that is shown again.
    pub(super) fn typed_inputs(&self) -> &BTreeMap<String, String> {
        &self.inputs
    }

    /// Checks every field. Of a form, the profile's fields have names of their own.
    pub(super) fn check(
        mut self,
        passwords: &Passwords,
        profiles: Option<&Profiles>,
        by_form: bool,
    ) -> Result<Accepted, Vec<Wrong>> {
        let mut wrong = Vec::new();
        let mut in_profile = Vec::new();
        let profile = self.profile(profiles, by_form, &mut in_profile);
        let email = self.email.check("email", &mut wrong, |text| {
            EmailAddress::parse(&text).map_err(|_| ("invalid", "not a valid email address".to_owned()))
        });
        let owner = PasswordOwner { email: email.as_ref(), display_name: profile.display_name.as_deref() };
        let password = self.password.check("password", &mut wrong, |text| {
            passwords.accept(text, owner).map_err(|weak: WeakPassword| (weak.code(), weak.to_string()))
        });
        let invite = match self.invite {
            Given::Missing => None,
            given => given.check("invite", &mut wrong, Ok).flatten(),
        };
        wrong.extend(in_profile);
        wrong.extend(self.unknown.into_iter().map(unknown));
        match (email, password) {
            (Some(email), Some(password)) if wrong.is_empty() => {
                Ok(Accepted { email, password, invite, profile: profile.text })
            }
            _ => Err(wrong),
        }
    }

    /// The profile of the new account. Without profiles, its fields are unknown like any others.
    fn profile(&mut self, profiles: Option<&Profiles>, by_form: bool, wrong: &mut Vec<Wrong>) -> Begun {
        let given = std::mem::take(&mut self.profile);
        let inputs = std::mem::take(&mut self.inputs);
        let Some(profiles) = profiles else {
            let names =
                (!matches!(given, Given::Missing)).then(|| PROFILE.to_owned()).into_iter().chain(inputs.into_keys());
            wrong.extend(names.map(unknown));
            return Begun::default();
        };
        let value = match given {
            Given::Missing if by_form => Value::Object(changes(&profiles.inputs(), &Map::new(), &inputs)),
            Given::Missing => json!({}),
            given => given.check(PROFILE, wrong, Ok).unwrap_or_else(|| json!({})),
        };
        if !by_form {
            wrong.extend(inputs.into_keys().map(unknown));
        }
        let display_name = ["displayName", "display_name"].into_iter().find_map(|key| value.get(key)?.as_str());
        let display_name = display_name.map(str::to_owned);
        match profiles.begin(&value) {
            Ok(text) => Begun { text, display_name },
            Err(problem) => {
                wrong.extend(problem.errors().iter().map(|error| Wrong {
                    field: error.field.clone().unwrap_or_default().into_owned(),
                    code: error.code.clone(),
                    message: error.message.clone().into_owned(),
                }));
                if problem.errors().is_empty() {
                    let message = problem.detail().to_owned();
                    wrong.push(Wrong { field: PROFILE.to_owned(), code: "invalid".into(), message });
                }
                Begun { text: None, display_name }
            }
        }
    }
}

/// The profile of a new account.
#[derive(Default)]
struct Begun {
    /// As it is stored.
    text: Option<String>,
    /// A password must not be it.
    display_name: Option<String>,
}

/// The member of a body with the profile. In a form, each of its fields has a name that begins with it.
const PROFILE: &str = "profile";

fn unknown(field: String) -> Wrong {
    Wrong { field, code: "unknown".into(), message: "there is no such field".to_owned() }
}

impl<T> Given<T> {
    fn check<V>(
        self,
        field: &str,
        wrong: &mut Vec<Wrong>,
        parse: impl FnOnce(T) -> Result<V, (&'static str, String)>,
    ) -> Option<V> {
        let (code, message) = match self {
            Self::Missing => ("required", "is required".to_owned()),
            Self::Mistyped(message) => ("invalid", message),
            Self::Value(value) => match parse(value) {
                Ok(parsed) => return Some(parsed),
                Err(error) => error,
            },
        };
        wrong.push(Wrong { field: field.to_owned(), code: code.into(), message });
        None
    }
}

/// 422 with an error for each field.
pub(super) fn problem(wrong: &[Wrong], case: JsonCase) -> Problem {
    let sentences: Vec<_> =
        wrong.iter().map(|wrong| format!("{}: {}", case.spell(&wrong.field), wrong.message)).collect();
    wrong
        .iter()
        .fold(Problem::of(StatusCode::UNPROCESSABLE_ENTITY).with_detail(sentences.join("; ")), |problem, wrong| {
            problem.with_field(case.spell(&wrong.field), wrong.code.clone(), wrong.message.clone())
        })
}

/// The same for the form: fields of the profile are called as their labels.
pub(super) fn in_words(problem: Problem, profiles: Option<&Profiles>) -> Problem {
    let inputs = profiles.map(Profiles::inputs).unwrap_or_default();
    let is_of_profile = |error: &FieldError| inputs.iter().any(|input| Some(&*input.key) == error.field.as_deref());
    if problem.errors().iter().any(is_of_profile) { labelled(problem, &inputs) } else { problem }
}

impl<'de> Deserialize<'de> for Registration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

/// Names of unknown fields that an answer repeats.
const MAX_UNKNOWN: usize = 16;
/// Fields of a profile in a form.
const MAX_INPUTS: usize = 100;

impl<'de> Visitor<'de> for Fields {
    type Value = Registration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an email and a password")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Registration, A::Error> {
        let mut registration = Registration::default();
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "email" => registration.email = fields.next_value()?,
                "password" => registration.password = fields.next_value()?,
                "invite" => registration.invite = fields.next_value()?,
                PROFILE => registration.profile = fields.next_value()?,
                input if input.starts_with("profile_") && registration.inputs.len() < MAX_INPUTS => {
                    if let Given::Value(text) = fields.next_value()? {
                        registration.inputs.insert(name, text);
                    } else if registration.unknown.len() < MAX_UNKNOWN {
                        registration.unknown.push(name.chars().take(64).collect());
                    }
                }
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                    if name != "roles" && registration.unknown.len() < MAX_UNKNOWN {
                        registration.unknown.push(name.chars().take(64).collect());
                    }
                }
            }
        }
        Ok(registration)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match T::deserialize(deserializer) {
            Ok(value) => Self::Value(value),
            Err(error) => Self::Mistyped(error.to_string()),
        })
    }
}
