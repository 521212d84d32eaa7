//! `[auth.directory]`: the accounts as a read-only entity called `users`.

use gatewright_auth::directory::{Column, Form, Listed, OWN, select};
use gatewright_base::nearest;
use gatewright_db::Engine;
use gatewright_entities::tenancy::USER_MEMBERS;
use gatewright_entities::{Entity, Field, Kind, PlanField, Profile, Query};

use super::Config;
use super::read::{Keyword, Section};

/// `[auth.directory]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Who may read it: a rule over the caller alone.
    pub read: String,
    /// The fields of accounts and of their profiles that it has.
    pub fields: Vec<String>,
    /// Whom it lists. Absent: [`DirectoryScope::Tenant`] if any entity is multi-tenant.
    pub scope: Option<DirectoryScope>,
}

/// Whom the directory lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryScope {
    /// The members of the request's tenant.
    Tenant,
    /// Every account.
    All,
}

impl Keyword for DirectoryScope {
    const WORDS: &'static [(&'static str, Self)] = &[("tenant", Self::Tenant), ("all", Self::All)];
}

impl Directory {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let about = "Who may read it: a [rule](rules.md#rules-of-fields) over the caller alone.";
        let read = section.required("read", about);
        let about = "The fields that it has: `email`, `email_verified`, `created_at`, and fields of the profile with the types \
                     `string`, `text`, `enum`, `bool` and `int`.";
        let fields = section.required::<Vec<String>>("fields", about);
        let about = "Whom it lists: the members of the request's `tenant`, or `all` accounts.";
        let default = "`\"tenant\"` if any entity is multi-tenant, otherwise `\"all\"`";
        Self { read, fields, scope: section.derived("scope", default, about) }
    }
}

/// The directory as an entity, if it is configured. The error names the setting.
pub(super) fn declared(config: &Config) -> Result<Option<Entity>, (&'static str, String)> {
    let Some(directory) = &config.auth.directory else { return Ok(None) };
    if !config.auth.enabled {
        return Err(("auth.directory", "without authentication there are no accounts".to_owned()));
    }
    let has_tenants = config.entities.iter().any(Entity::is_multi_tenant);
    let is_of_tenant = match directory.scope {
        Some(DirectoryScope::Tenant) if !has_tenants => {
            let message = "no entity is multi-tenant, so that nobody belongs to a tenant; leave it out";
            return Err(("auth.directory.scope", message.to_owned()));
        }
        Some(scope) => scope == DirectoryScope::Tenant,
        None => has_tenants,
    };
    if directory.fields.is_empty() {
        return Err(("auth.directory.fields", "name at least one field, such as \"email\"".to_owned()));
    }
    let profile = Profile::declare(&config.auth.profile, config.server.json_case).ok();
    let mut columns: Vec<(Column, Field)> = Vec::new();
    for name in &directory.fields {
        let wrong = |message: String| ("auth.directory.fields", message);
        if columns.iter().any(|(column, _)| column.name() == name) {
            return Err(wrong(format!("names \"{}\" twice", short(name))));
        }
        columns.push(column(profile.as_ref(), name).map_err(wrong)?);
    }
    let listed =
        Listed { members: is_of_tenant.then_some(USER_MEMBERS), verified_only: config.auth.require_verified_email };
    let (columns, fields): (Vec<Column>, Vec<Field>) = columns.into_iter().unzip();
    let [sqlite, postgres] = [Engine::Sqlite, Engine::Postgres].map(|engine| select(engine, &columns, listed));
    let query = Query::by_engine(Some(&sqlite), Some(&postgres));
    let texts: Vec<&Column> = columns.iter().filter(|column| is_text(column)).collect();
    let entity = Entity::directory(query, &directory.read)
        .description("The accounts that may be shown to the caller.")
        .search_fields(texts.into_iter().map(Column::name));
    Ok(Some(fields.into_iter().fold(entity, Entity::field)))
}

fn is_text(column: &Column) -> bool {
    match column {
        Column::Email => true,
        Column::Profile { form, .. } => matches!(form, Form::Text | Form::Words(_)),
        Column::EmailVerified | Column::CreatedAt => false,
    }
}

/// A field of accounts, and its column.
fn column(profile: Option<&Profile>, name: &str) -> Result<(Column, Field), String> {
    if let Some((_, column)) = OWN.iter().find(|(known, _)| *known == name) {
        let field = match column {
            Column::EmailVerified => Field::boolean(name),
            Column::CreatedAt => Field::timestamp(name),
            Column::Email | Column::Profile { .. } => Field::string(name),
        };
        return Ok((column.clone(), field));
    }
    let fields = || profile.into_iter().flat_map(Profile::fields).map(|(field, _)| field);
    let Some(field) = fields().find(|field| field.column() == name) else {
        let known = OWN.iter().map(|(name, _)| *name).chain(fields().map(PlanField::column));
        let hint = nearest(name, known).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
        return Err(format!("accounts and their profiles have no field \"{}\"{hint}", short(name)));
    };
    let words = || field.constraints().values.to_vec();
    let (form, declared) = match field.kind() {
        Kind::String => (Form::Text, Field::string(name)),
        Kind::Text => (Form::Text, Field::text(name)),
        Kind::Enum => (Form::Words(words()), Field::choice(name, words())),
        Kind::Bool => (Form::Flag, Field::boolean(name)),
        Kind::Int => (Form::Int, Field::int(name)),
        kind => {
            let kinds = "string, text, enum, bool and int";
            return Err(format!("\"{name}\" is of the type {kind}; the directory has fields of the types {kinds}"));
        }
    };
    let declared = match field.description() {
        Some(text) => declared.description(text),
        None => declared,
    };
    Ok((Column::Profile { name: name.to_owned(), form }, declared))
}

fn short(name: &str) -> String {
    name.chars().take(80).collect()
}
