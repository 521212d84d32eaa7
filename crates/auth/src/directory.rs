//! The accounts that other people may be shown, as a SELECT for the program that shows them.
//!
//! Which callers may see them is the program's decision. Which accounts and which columns there are is decided here: accounts that are
//! open and belong to somebody with an address, and nothing that proves an identity.

use gatewright_db::{Engine, column_types};

use crate::email::GUEST_DOMAIN;

/// A column of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// The address.
    Email,
    /// Whether the address is verified.
    EmailVerified,
    /// When the account was created.
    CreatedAt,
    /// A field of the profile.
    Profile {
        /// Its name in the stored object, of lower-case letters, digits and underscores.
        name: String,
        /// The form of its values. Others count as absent.
        form: Form,
    },
}

/// The form of a profile's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Text.
    Text,
    /// One of these words.
    Words(Vec<String>),
    /// A truth value.
    Flag,
    /// A whole number of at most 18 digits.
    Int,
}

/// The condition of an account that nobody can use.
pub const CLOSED: &str = "disabled_at IS NOT NULL";

/// The columns of accounts, by the names under which the directory has them.
pub const OWN: [(&str, Column); 3] =
    [("email", Column::Email), ("email_verified", Column::EmailVerified), ("created_at", Column::CreatedAt)];

/// Which accounts are in a directory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listed<'a> {
    /// The members alone: a SELECT of their `member_id` and `tenant_id`. An account is listed once for each of its tenants then.
    pub members: Option<&'a str>,
    /// Only accounts whose address is verified: the others cannot sign in.
    pub verified_only: bool,
}

/// The SELECT of `id`, these columns by their names and, of members, `tenant_id`.
pub fn select(engine: Engine, columns: &[Column], listed: Listed<'_>) -> String {
    let columns: Vec<String> =
        columns.iter().map(|column| format!(", {} AS {}", column.sql(engine), column.name())).collect();
    let columns = columns.concat();
    let (tenant, members) = match listed.members {
        None => ("", String::new()),
        Some(members) => {
            (", members.tenant_id", format!(" JOIN ({members}) AS members ON members.member_id = users.id"))
        }
    };
    let verified = if listed.verified_only { " AND users.email_verified" } else { "" };
    // Bytes: a subquery; what is selected of it is bounded by the list.
    format!(
        "SELECT users.id AS id{columns}{tenant} FROM users{members} \
         WHERE NOT (users.{CLOSED}) AND users.email NOT LIKE '%{GUEST_DOMAIN}'{verified}"
    )
}

impl Column {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Profile { name, .. } => name,
            own => OWN.iter().find(|(_, known)| known == own).map_or("", |(name, _)| name),
        }
    }

    fn sql(&self, engine: Engine) -> String {
        match self {
            Self::Email => "users.email".to_owned(),
            Self::EmailVerified => "users.email_verified".to_owned(),
            Self::CreatedAt => "users.created_at".to_owned(),
            Self::Profile { name, form } => form.sql(engine, name),
        }
    }
}

impl Form {
    /// The value of a member of the stored object, which may be absent or of another form.
    fn sql(&self, engine: Engine, name: &str) -> String {
        let (kind, value) = match engine {
            Engine::Sqlite => {
                (format!("json_type(users.profile, '$.{name}')"), format!("json_extract(users.profile, '$.{name}')"))
            }
            Engine::Postgres => {
                let profile = "CAST(users.profile AS json)";
                (format!("json_typeof({profile} -> '{name}')"), format!("({profile} ->> '{name}')"))
            }
        };
        let is_object = match engine {
            Engine::Sqlite => "json_valid(users.profile)",
            Engine::Postgres => "users.profile LIKE '{%}'",
        };
        let as_type = |word: &str| {
            let types = column_types(word, engine);
            let (name, collation) = types.split_once(" COLLATE ").unwrap_or((&types, ""));
            let collate = if collation.is_empty() { String::new() } else { format!(" COLLATE {collation}") };
            format!("CAST({value} AS {name}){collate}")
        };
        let is_text = match engine {
            Engine::Sqlite => format!("{kind} = 'text'"),
            Engine::Postgres => format!("{kind} = 'string'"),
        };
        let (is_form, value) = match (self, engine) {
            (Self::Text, _) => (is_text, as_type("{text}")),
            (Self::Words(words), _) => {
                let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', "''"))).collect();
                (format!("{is_text} AND {value} IN ({})", words.join(", ")), as_type("{text}"))
            }
            (Self::Flag, Engine::Sqlite) => (format!("{kind} IN ('true', 'false')"), value.clone()),
            (Self::Flag, Engine::Postgres) => (format!("{kind} = 'boolean'"), as_type("{bool}")),
            (Self::Int, Engine::Sqlite) => (format!("{kind} = 'integer'"), as_type("{int}")),
            (Self::Int, Engine::Postgres) => {
                (format!("{kind} = 'number' AND {value} ~ '^-?[0-9]{{1,18}}$'"), as_type("{int}"))
            }
        };
        // The inner condition is evaluated only for an object.
        format!("CASE WHEN {is_object} THEN CASE WHEN {is_form} THEN {value} END END")
    }
}
