//! The declared fields of profiles, for authentication, which stores them, and for entities, which show the public
//! ones.

use std::sync::Arc;

use gatewright_auth::plugins::profile::{InputKind, ProfileFields, ProfileInput, ProfilePlugin};
use gatewright_auth::{Auth, directory};
use gatewright_entities::operations::Error;
use gatewright_entities::{Bound, Builder as EntitiesBuilder, Kind, PlanField, Profile};
use gatewright_http::Problem;
use serde_json::{Map, Value};

use crate::Config;

/// The fields of `[[auth.profile.field]]`; `None` if there are none.
pub(crate) fn declared(config: &Config) -> Option<Arc<Profile>> {
    let fields = &config.auth.profile;
    if !config.auth.enabled || fields.is_empty() {
        return None;
    }
    // The configuration's check has already refused invalid fields.
    Profile::declare(fields, config.server.json_case).ok().map(Arc::new)
}

/// The plugin that keeps them.
pub(super) fn plugin(config: &Config) -> Option<ProfilePlugin> {
    declared(config).map(|profile| ProfilePlugin::new(Arc::new(Declared(profile))))
}

/// Has entities show the public ones, where the user store keeps them in the same database.
pub(super) fn shown_by(entities: EntitiesBuilder, config: &Config, auth: Option<&Auth>) -> EntitiesBuilder {
    match (declared(config), auth.and_then(Auth::profile_table)) {
        (Some(profile), Some(table)) if config.auth.directory.is_some() => {
            entities.profiles(profile, table).closed_users(directory::CLOSED)
        }
        (Some(profile), Some(table)) => entities.profiles(profile, table),
        (Some(_), None) | (None, _) => entities,
    }
}

struct Declared(Arc<Profile>);

impl ProfileFields for Declared {
    fn merge(&self, stored: Option<&str>, body: &[u8], is_merge_patch: bool) -> Result<String, Problem> {
        self.0.merge(stored, body, is_merge_patch).map_err(|error| Error::Body(error).into())
    }

    fn begin(&self, body: &[u8]) -> Result<String, Problem> {
        self.0.begin(body).map_err(|error| Error::Body(error).into())
    }

    fn missing(&self, stored: Option<&str>) -> Vec<String> {
        self.0.missing(stored)
    }

    fn shown(&self, stored: Option<&str>) -> Map<String, Value> {
        self.0.shown(stored)
    }

    fn inputs(&self) -> Vec<ProfileInput> {
        self.0.fields().filter_map(|(field, _)| input(field)).collect()
    }
}

/// A field for the form on the account page. JSON and lists are only for programs.
fn input(field: &PlanField) -> Option<ProfileInput> {
    let constraints = field.constraints();
    let max = match constraints.max {
        Some(Bound::Length(most)) => Some(most),
        _ => None,
    };
    let kind = match field.kind() {
        Kind::Json | Kind::List | Kind::Relation | Kind::File => return None,
        Kind::Text => InputKind::Text { max },
        Kind::Int | Kind::Float => InputKind::Number,
        Kind::Bool => InputKind::Flag,
        Kind::Enum => InputKind::Choice(constraints.values.to_vec()),
        Kind::Date => InputKind::Day,
        Kind::String | Kind::Decimal | Kind::Timestamp | Kind::Uuid => InputKind::Line { max },
    };
    let key = field.key().to_owned();
    Some(ProfileInput { key, label: label(field.column()), required: field.is_required(), kind })
}

/// `display_name` is "Display name" for people.
fn label(column: &str) -> String {
    let words = column.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
