//! Roles in the form of a column: a JSON array of names.

use gatewright_base::Roles;
use gatewright_db::{Error, Row};

/// The roles of a row.
pub(crate) fn read(row: &Row) -> Result<Roles, Error> {
    let names: Option<Vec<String>> = serde_json::from_str(&row.get::<String>("roles")?).ok();
    names.map(Roles::from).ok_or_else(|| Error::Corrupt {
        statement: "a read of tenants".to_owned(),
        column: "roles".to_owned(),
        found: "text",
        expected: "a JSON list of names",
    })
}

/// The text for the column.
pub(crate) fn text(roles: &Roles) -> String {
    serde_json::to_string(roles).unwrap_or_else(|_| "[]".to_owned())
}
