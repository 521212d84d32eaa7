//! Profiles of accounts, with fields that the program declares ([`ProfileFields`]).
//!
//! The [plugin](crate::plugins::profile) has the routes and the form.

use std::sync::Arc;

use gatewright_base::UserId;
use gatewright_http::Problem;
use serde_json::{Map, Value, json};

use crate::audit::{Audit, AuditKind};
use crate::session::Client;
use crate::users::{User, UserProfiles, UserStoreError, UserSummary};

/// The fields of profiles, as the program declares them.
pub trait ProfileFields: Send + Sync + 'static {
    /// Merges `body`, a request's `{"profile": {…}}`, into `stored` and returns the text to store. Its length is
    /// limited. With `is_merge_patch`, objects are merged at every depth (RFC 7396). An invalid body is refused with an
    /// error for each invalid field.
    fn merge(&self, stored: Option<&str>, body: &[u8], is_merge_patch: bool) -> Result<String, Problem>;

    /// The text to store for a new account, from `{"profile": {…}}`. A body without a required field is refused.
    fn begin(&self, body: &[u8]) -> Result<String, Problem> {
        self.merge(None, body, false)
    }

    /// The keys of required fields that a stored profile does not have.
    fn missing(&self, stored: Option<&str>) -> Vec<String> {
        let _ = stored;
        Vec::new()
    }

    /// A stored profile as its account sees it, with every declared field.
    fn shown(&self, stored: Option<&str>) -> Map<String, Value>;

    /// The fields in the form of the account page. Without any, the page has no form.
    fn inputs(&self) -> Vec<ProfileInput> {
        Vec::new()
    }
}

/// A field in a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInput {
    /// Its key in profiles.
    pub key: String,
    /// The label.
    pub label: String,
    /// Whether it cannot be empty.
    pub required: bool,
    /// The kind of input.
    pub kind: InputKind,
}

/// The kind of an input.
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

/// The profiles of accounts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Profiles {
    fields: Arc<dyn ProfileFields>,
    store: Arc<dyn UserProfiles>,
}

/// Why a profile was not changed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The body is invalid.
    #[error("{0}")]
    Refused(Problem),
    /// Too many concurrent changes.
    #[error("the profile changes too often at the same time; nothing was changed; try again")]
    Contended,
    #[error(transparent)]
    Users(#[from] UserStoreError),
}

/// Changes of one account that may come between the read and the write of another.
const MAX_TRIES: usize = 50;

impl Profiles {
    pub(crate) fn new(fields: Arc<dyn ProfileFields>, store: Arc<dyn UserProfiles>) -> Self {
        Self { fields, store }
    }

    /// The text to store for a new account. `None` if there is nothing to store.
    pub(crate) fn begin(&self, profile: &Value) -> Result<Option<String>, Problem> {
        if profile.as_object().is_some_and(Map::is_empty) && self.fields.missing(None).is_empty() {
            return Ok(None);
        }
        let text = self.fields.begin(json!({ "profile": profile }).to_string().as_bytes())?;
        Ok(Some(text).filter(|text| text != "{}"))
    }

    /// The required fields that a form must ask a new account for.
    pub(crate) fn required_inputs(&self) -> Vec<ProfileInput> {
        let missing = self.fields.missing(None);
        self.inputs().into_iter().filter(|input| missing.contains(&input.key)).collect()
    }

    /// The required fields that an account does not have and a form can ask for.
    pub(crate) async fn missing_inputs(&self, id: &UserId) -> Result<Vec<ProfileInput>, UserStoreError> {
        let missing = self.fields.missing(self.store.profile(id).await?.as_deref());
        Ok(self.inputs().into_iter().filter(|input| missing.contains(&input.key)).collect())
    }

    /// The profile of an account as its owner sees it.
    pub(crate) async fn of(&self, id: &UserId) -> Result<Map<String, Value>, UserStoreError> {
        let stored = self.store.profile(id).await?;
        Ok(self.fields.shown(stored.as_deref()))
    }

    /// The field `display_name` of an account, if profiles have one.
    pub(crate) async fn display_name(&self, id: &UserId) -> Result<Option<String>, UserStoreError> {
        let profile = self.of(id).await?;
        let name = ["displayName", "display_name"].into_iter().find_map(|key| profile.get(key)?.as_str());
        Ok(name.map(str::to_owned))
    }

    /// Sets a field that profiles have and that is empty in this one. `field` is its name in snake case.
    #[cfg(feature = "oauth")]
    pub(crate) async fn fill(
        &self,
        audit: &Audit,
        id: &UserId,
        field: &str,
        value: &str,
        client: &Client,
    ) -> Result<(), ChangeError> {
        for _ in 0..MAX_TRIES {
            let stored = self.store.profile(id).await?;
            let shown = self.fields.shown(stored.as_deref());
            let is_empty = |value: &Value| value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
            let is_field = |key: &str| key == field || key == gatewright_base::JsonCase::Camel.spell(field);
            let Some((key, _)) = shown.iter().find(|(key, value)| is_field(key) && is_empty(value)) else {
                return Ok(());
            };
            let body = json!({ "profile": { key: value } }).to_string();
            let merged = self.fields.merge(stored.as_deref(), body.as_bytes(), true).map_err(ChangeError::Refused)?;
            if self.store.replace_profile(id, stored.as_deref(), &merged).await? {
                self.record_change(audit, id, stored.as_deref(), &merged, client).await;
                return Ok(());
            }
        }
        Err(ChangeError::Contended)
    }

    /// The table that has the profiles in its columns `id` and `profile`.
    pub(crate) fn table(&self) -> Option<&str> {
        self.store.table()
    }

    /// The fields that a form asks for.
    pub(crate) fn inputs(&self) -> Vec<ProfileInput> {
        self.fields.inputs()
    }

    /// Merges a body into the profile. No concurrent change is lost.
    pub(crate) async fn change(
        &self,
        audit: &Audit,
        id: &UserId,
        (body, is_merge_patch): (&[u8], bool),
        client: &Client,
    ) -> Result<(), ChangeError> {
        for _ in 0..MAX_TRIES {
            let stored = self.store.profile(id).await?;
            let merged = self.fields.merge(stored.as_deref(), body, is_merge_patch).map_err(ChangeError::Refused)?;
            if stored.as_ref() == Some(&merged) {
                return Ok(());
            }
            if self.store.replace_profile(id, stored.as_deref(), &merged).await? {
                self.record_change(audit, id, stored.as_deref(), &merged, client).await;
                return Ok(());
            }
        }
        Err(ChangeError::Contended)
    }

    /// The log has the names of the fields that changed. Their values are the account's own.
    async fn record_change(&self, audit: &Audit, id: &UserId, before: Option<&str>, after: &str, client: &Client) {
        let (before, after) = (self.fields.shown(before), self.fields.shown(Some(after)));
        let changed = after.into_iter().filter(|(key, value)| before.get(key) != Some(value));
        let names: Vec<String> = changed.map(|(key, _)| key).collect();
        if !names.is_empty() {
            let event = audit.event(AuditKind::ProfileChanged).user(id).remote(client.address());
            audit.record(event.with("fields", names)).await;
        }
    }
}

/// The user of an answer to its owner: `profile` is there if the program declares fields.
pub(crate) async fn own_user(profiles: Option<&Profiles>, user: &User) -> Result<Value, UserStoreError> {
    let mut shown = json!(UserSummary::from(user));
    if let Some(profiles) = profiles {
        shown["profile"] = profiles.of(&user.id).await?.into();
    }
    Ok(shown)
}
