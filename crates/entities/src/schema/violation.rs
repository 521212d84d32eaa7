//! Messages for an operator about rows that violate a rule. Pure.

use super::script::qualified;
use crate::declare::{Kind, Model, ModelField};
use crate::fragment::quoted;
use crate::value::code;

/// Rows that violate one rule of a field.
#[derive(Debug)]
pub(super) struct Violation {
    /// One of [`code`].
    pub(super) rule: &'static str,
    /// The valid values.
    pub(super) message: String,
    pub(super) rows: u64,
    /// The first ones.
    pub(super) ids: Vec<String>,
}

/// The message: how many rows, which rule, and the SQL to find and to correct them.
pub(super) fn remark(model: &Model, field: &ModelField, violation: &Violation) -> String {
    let (table, column) = (&*model.table, &*field.name);
    let rows =
        if violation.rows == 1 { "1 row violates".to_owned() } else { format!("{} rows violate", violation.rows) };
    let (name, value) = (qualified(table, column), example(field));
    let condition = condition(table, field, violation);
    let part = if violation.rule != code::REQUIRED && violation.rows > violation.ids.len() as u64 {
        format!(" (the first {})", violation.ids.len())
    } else {
        String::new()
    };
    let table = quoted(table);
    format!(
        "table {table}, column \"{column}\": {rows} `{}` ({}). They can be read, and a change must leave the field alone or \
         correct it. To find them{part}, run: SELECT {}, {name} FROM {table} WHERE {condition}; to fix them, set the right \
         value: UPDATE {table} SET {} = {value} WHERE {condition};",
        violation.rule,
        violation.message,
        qualified(&model.table, "id"),
        quoted(column),
    )
}

/// All rows if SQL can express the rule, otherwise the rows whose ids are known.
fn condition(table: &str, field: &ModelField, violation: &Violation) -> String {
    if violation.rule == code::REQUIRED {
        return format!("{} IS NULL", qualified(table, &field.name));
    }
    let ids: Vec<String> = violation.ids.iter().map(|id| format!("'{}'", id.replace('\'', "''"))).collect();
    format!("{} IN ({})", qualified(table, "id"), ids.join(", "))
}

/// A placeholder for the operator's value, which is a syntax error in every database.
fn example(field: &ModelField) -> &'static str {
    match field.kind {
        Kind::Int | Kind::Float | Kind::Decimal | Kind::Bool => "NUMBER",
        Kind::String
        | Kind::Text
        | Kind::Enum
        | Kind::Date
        | Kind::Timestamp
        | Kind::Uuid
        | Kind::Json
        | Kind::List
        | Kind::Relation
        | Kind::File => "'VALUE'",
    }
}
