//! The tables of [`SqlUserStore`](super::SqlUserStore), and how a user is read from them and written.

use std::borrow::Cow;

use gatewright_base::Roles;
use gatewright_db::{Error, RowRef, Step, Value, ValueRef, params};
use jiff::Timestamp;

use super::User;
use crate::email::EmailAddress;
use crate::password::PasswordHash;

/// The steps that create the tables.
pub(crate) const MIGRATIONS: &[Step] = &[
    USERS,
    Step { version: 2, name: "users oauth links", sql: OAUTH_LINKS },
    Step { version: 3, name: "disabled users", sql: "ALTER TABLE users ADD COLUMN disabled_at {time}" },
    Step { version: 4, name: "profiles", sql: "ALTER TABLE users ADD COLUMN profile {text}" },
];

const USERS: Step = Step {
    version: 1,
    name: "users",
    sql: "CREATE TABLE users (
            id {text} PRIMARY KEY,
            email {text} NOT NULL UNIQUE,
            password_hash {text},
            password_set {bool} NOT NULL,
            roles {text} NOT NULL,
            email_verified {bool} NOT NULL,
            tokens_valid_after {time},
            sessions_valid_after {time},
            created_at {time} NOT NULL,
            updated_at {time} NOT NULL
          )",
};

/// The table may exist already: an earlier version did not check for it if the record of steps was lost.
const OAUTH_LINKS: &str = "CREATE TABLE IF NOT EXISTS users_oauth_links (
            provider {text} NOT NULL,
            provider_id {text} NOT NULL,
            user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            email {text},
            name {text},
            avatar_url {text},
            linked_at {time} NOT NULL,
            PRIMARY KEY (provider, provider_id)
          );
          CREATE INDEX IF NOT EXISTS users_oauth_links_user_id ON users_oauth_links (user_id)";

/// The columns that [`read_user`] reads, qualified by the table's name for use in joins.
macro_rules! user_columns {
    () => {
        "users.id AS user_id, users.email, users.roles, users.password_set, users.email_verified, \
         users.tokens_valid_after, users.sessions_valid_after, users.disabled_at"
    };
}
pub(crate) use user_columns;

/// The number of users.
pub(crate) const USER_COLUMNS: usize = 8;

/// Takes [`insert_params`].
pub(super) const INSERT: &str = "INSERT INTO users (id, email, password_hash, password_set, roles, email_verified, created_at, updated_at, profile) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)";

pub(super) fn insert_params(
    user: &User,
    hash: Option<&PasswordHash>,
    profile: Option<&str>,
    now: Timestamp,
) -> Vec<Value> {
    params![
        &user.id,
        user.email.as_str(),
        hash.map(PasswordHash::expose),
        user.password_set,
        roles_text(&user.roles),
        user.email_verified,
        now,
        profile
    ]
}

/// Reads the columns of `user_columns!`, starting at the position `first`. Fails with [`Error::Unreadable`].
pub(crate) fn read_user(row: &RowRef<'_>, first: usize) -> Result<User, Error> {
    let id = || row.get::<String>(first).unwrap_or_default();
    read(row, first).map_err(|error| error.of_record("users", &id()))
}

fn read(row: &RowRef<'_>, first: usize) -> Result<User, Error> {
    let corrupt = |column: &str, expected| Error::Corrupt {
        statement: "a read of users".to_owned(),
        column: column.to_owned(),
        found: "text",
        expected,
    };
    let email = EmailAddress::stored(&text(row, first + 1)?).map_err(|_| corrupt("email", "an email address"))?;
    let roles = roles_from_text(&text(row, first + 2)?).ok_or_else(|| corrupt("roles", "a JSON list of names"))?;
    let mut user = User::new(row.get(first)?, email, roles);
    user.password_set = row.get(first + 3)?;
    user.email_verified = row.get(first + 4)?;
    user.tokens_valid_after = row.get(first + 5)?;
    user.sessions_valid_after = row.get(first + 6)?;
    user.disabled = row.get::<Option<Timestamp>>(first + 7)?.is_some();
    Ok(user)
}

/// A text in the driver's buffer.
fn text<'a>(row: &'a RowRef<'_>, index: usize) -> Result<Cow<'a, str>, Error> {
    match row.value(index)? {
        ValueRef::Text(text) => Ok(text),
        // The type's own refusal names the column.
        _ => row.get::<String>(index).map(Cow::Owned),
    }
}

/// The text of a column of roles: a JSON list of names.
pub(crate) fn roles_text(roles: &Roles) -> String {
    serde_json::Value::from(roles.iter().collect::<Vec<_>>()).to_string()
}

pub(crate) fn roles_from_text(text: &str) -> Option<Roles> {
    if text == "[]" {
        return Some(Roles::default());
    }
    serde_json::from_str::<Vec<String>>(text).ok().map(Roles::from)
}
