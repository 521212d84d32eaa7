//! The fields of a registration.

use std::fmt;

use gatewright_base::{JsonCase, Secret};
use gatewright_http::Problem;
use http::StatusCode;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::email::EmailAddress;
use crate::password::{NewPassword, Passwords, WeakPassword};

/// The fields of a registration. Each is read on its own, so that one answer names everything that is wrong. `roles` is
/// ignored, as is the `_csrf` that was checked before.
#[derive(Debug, Default)]
pub(super) struct Registration {
    email: Given<String>,
    password: Given<Secret>,
    invite: Given<Option<Secret>>,
    unknown: Vec<String>,
}

/// A registration that breaks no rule.
pub(super) struct Accepted {
    pub(super) email: EmailAddress,
    pub(super) password: NewPassword,
    /// The token of an invitation.
    pub(super) invite: Option<Secret>,
}

/// The error of one field, by its name in `snake_case`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    field: String,
    code: &'static str,
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

    /// Checks every field.
    pub(super) fn check(self, passwords: &Passwords) -> Result<Accepted, Vec<Wrong>> {
        let mut wrong = Vec::new();
        let email = self.email.check("email", &mut wrong, |text| {
            EmailAddress::parse(&text).map_err(|_| ("invalid", "not a valid email address".to_owned()))
        });
        let password = self.password.check("password", &mut wrong, |text| {
            passwords.accept(text).map_err(|weak: WeakPassword| (weak.code(), weak.to_string()))
        });
        let invite = match self.invite {
            Given::Missing => None,
            given => given.check("invite", &mut wrong, Ok).flatten(),
        };
        let unknown = self.unknown.into_iter();
        wrong.extend(unknown.map(|field| Wrong {
            field,
            code: "unknown",
            message: "there is no such field".to_owned(),
        }));
        match (email, password) {
            (Some(email), Some(password)) if wrong.is_empty() => Ok(Accepted { email, password, invite }),
            _ => Err(wrong),
        }
    }
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
        wrong.push(Wrong { field: field.to_owned(), code, message });
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
            problem.with_field(case.spell(&wrong.field), wrong.code, wrong.message.clone())
        })
}

impl<'de> Deserialize<'de> for Registration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

/// Names of unknown fields that an answer repeats.
const MAX_UNKNOWN: usize = 16;

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
