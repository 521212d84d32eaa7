//! What an account says of itself, in fields that the program declares.
//!
//! `http.rs` takes a change from a session, [`ProfileFields`] reads it and merges it into what is stored, and the user store
//! ([`UserProfiles`](crate::users::UserProfiles)) replaces the stored text if nobody else has meanwhile (`flow.rs`). `GET /me`, sign-in and the
//! account's export show the profile. The audit log has the names of changed fields, not their values. This crate does not know which
//! fields there are.

mod flow;
mod http;
mod section;

use std::sync::Arc;

use gatewright_http::Problem;
use serde_json::{Map, Value};

use crate::plugins::{Plugin, Prepared};
use crate::{AuthInitError, Foundation};

pub(crate) use flow::{ChangeError, Profiles, own_user};
use section::ProfileSection;

/// The fields of profiles, as the program declares them.
pub trait ProfileFields: Send + Sync + 'static {
    /// The text to store after `body`, a request's `{"profile": {…}}`, was merged into `stored`. A body that does not fit is
    /// refused, with each field at fault. The text has a bounded length.
    fn merge(&self, stored: Option<&str>, body: &[u8]) -> Result<String, Problem>;

    /// A stored profile as its account sees it, with every declared field.
    fn shown(&self, stored: Option<&str>) -> Map<String, Value>;

    /// The fields that the form of the account page asks for. Absent: the page has no form.
    fn inputs(&self) -> Vec<ProfileInput> {
        Vec::new()
    }
}

/// A field as a form asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInput {
    /// Its key in profiles.
    pub key: String,
    /// What people read beside it.
    pub label: String,
    /// Whether it cannot be empty.
    pub required: bool,
    /// What it takes.
    pub kind: InputKind,
}

/// What an input takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    /// A line of text.
    Line {
        /// The most characters.
        max: Option<usize>,
    },
    /// Text of several lines.
    Text {
        /// The most characters.
        max: Option<usize>,
    },
    /// A number.
    Number,
    /// A calendar day.
    Day,
    /// Yes or no.
    Flag,
    /// One of these words.
    Choice(Vec<String>),
}

/// The plugin by which accounts have profiles.
pub struct ProfilePlugin {
    fields: Arc<dyn ProfileFields>,
}

impl ProfilePlugin {
    /// Profiles of these fields.
    pub fn new(fields: Arc<dyn ProfileFields>) -> Self {
        Self { fields }
    }
}

impl Plugin for ProfilePlugin {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let Some(store) = foundation.users.profiles.clone() else {
            return Err(AuthInitError::MissingCapability {
                plugin: "profile",
                store: "user",
                capability: "profiles",
                remedy: "implement `user_profiles`",
            });
        };
        let profiles = Profiles::new(self.fields, store);
        let section = profiles.clone();
        Ok(Prepared::new()
            .profiles(profiles.clone())
            .account_section(|_| Arc::new(ProfileSection::new(section)))
            .routes(|core| http::routes(core, profiles)))
    }
}

impl std::fmt::Debug for ProfilePlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfilePlugin").finish_non_exhaustive()
    }
}
