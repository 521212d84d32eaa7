//! The SQL with which an operator changes a column that holds data. Pure.
//!
//! It uses the names that the database has now. The sqlite3 shell continues after an error, so no statement here removes
//! a value: on SQLite the values are copied into a new column, and the old column stays beside it until the operator
//! drops it. Column names in expressions are qualified, because SQLite reads an unknown quoted name as a text.

use gatewright_db::Engine;
use gatewright_db::schema::{ColumnShape, TableShape};

use super::convert::Conversion;
use super::marks;
use super::table::{Column, Table};
use crate::fragment::quoted;

/// A column's name with its table's, so that a missing one is an error.
pub(super) fn qualified(table: &str, column: &str) -> String {
    format!("{}.{}", quoted(table), quoted(column))
}

/// SQLite: puts a new column with the declared type and constraints in the place of the one that is there.
pub(super) fn replace_column(table: &Table, shape: &TableShape, column: &Column, there: &ColumnShape) -> Vec<String> {
    let name = &column.name;
    let (fresh, aside) = (free_name(table, shape, name, "new"), free_name(table, shape, name, "before"));
    let of = quoted(&table.name);
    let conversion = Conversion::of(&there.type_name, column.type_name(), &qualified(&table.name, name));
    let mut script: Vec<String> = drop_dependents(table, shape, name, Engine::Sqlite);
    script.extend([
        column.add_as(&table.name, &fresh),
        format!("UPDATE {of} SET {} = {}", quoted(&fresh), conversion.value),
        format!("ALTER TABLE {of} RENAME COLUMN {} TO {}", quoted(name), quoted(&aside)),
        format!("ALTER TABLE {of} RENAME COLUMN {} TO {}", quoted(&fresh), quoted(name)),
    ]);
    script
}

/// Postgres: changes the type in one statement, which fails as a whole where a value does not convert.
pub(super) fn retype(table: &Table, shape: &TableShape, column: &Column) -> Vec<String> {
    let (name, kind) = (quoted(&column.name), column.type_name());
    let from = qualified(&table.name, &column.name);
    let mut clauses = drop_references(shape, &column.name);
    clauses.push(format!("ALTER COLUMN {name} DROP DEFAULT"));
    clauses.push(format!("ALTER COLUMN {name} TYPE {} USING {from}::text::{kind}", column.sql_type));
    let mut script = marks::drop_all(&table.name, shape, Engine::Postgres);
    script.push(format!("ALTER TABLE {} {}", quoted(&table.name), clauses.join(", ")));
    script
}

/// Postgres: creates the column's foreign key as declared, or removes it.
pub(super) fn refer(table: &Table, shape: &TableShape, column: &Column) -> Vec<String> {
    let mut clauses = drop_references(shape, &column.name);
    clauses.extend(column.reference.as_ref().map(|reference| reference.add(&table.name, &column.name)));
    vec![format!("ALTER TABLE {} {}", quoted(&table.name), clauses.join(", "))]
}

/// Postgres: makes a column nullable.
pub(super) fn drop_not_null(table: &str, column: &str) -> String {
    format!("ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL", quoted(table), quoted(column))
}

/// Removes the indexes that contain a column, and the table's triggers. The next start creates the declared ones again.
pub(super) fn drop_dependents(table: &Table, shape: &TableShape, column: &str, engine: Engine) -> Vec<String> {
    let with_it = shape.indexes.iter().filter(|index| index.columns.iter().any(|name| name == column));
    let indexes = with_it.map(|index| format!("DROP INDEX {}", quoted(&index.name)));
    indexes.chain(marks::drop_all(&table.name, shape, engine)).collect()
}

fn drop_references(shape: &TableShape, column: &str) -> Vec<String> {
    let keys = shape.foreign_keys.iter().filter(|key| key.column == column && !key.name.is_empty());
    keys.map(|key| format!("DROP CONSTRAINT {}", quoted(&key.name))).collect()
}

/// `code_new`, or `code_new_2` where that is taken.
fn free_name(table: &Table, shape: &TableShape, column: &str, suffix: &str) -> String {
    let taken = |name: &str| shape.column(name).is_some() || table.columns.iter().any(|other| other.name == name);
    let first = format!("{column}_{suffix}");
    let numbered = (2..).map(|number| format!("{first}_{number}"));
    std::iter::once(first.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
}
