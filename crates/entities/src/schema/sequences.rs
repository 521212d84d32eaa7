//! Sequences: the table of the last numbers, and the numbers of records that were there before.

use gatewright_db::schema::TableShape;
use gatewright_db::{Engine, column_types, dialect};

use super::table::index_name;
use crate::declare::{Model, Sequence};
use crate::fragment::quoted;

/// The last number of each sequence in each scope.
pub(crate) const TABLE: &str = "gatewright_sequences";

/// The statement that creates the table.
pub(super) fn create_table(engine: Engine) -> String {
    let sql = "CREATE TABLE gatewright_sequences (name {text} NOT NULL, scope {text} NOT NULL, last {int} NOT NULL, \
               PRIMARY KEY (name, scope))";
    column_types(sql, engine)
}

/// The name of a sequence in that table.
pub(crate) fn name(table: &str, column: &str) -> String {
    format!("{table}.{column}")
}

/// A record's scope as text, the same on both engines: a JSON array of texts. `column` is an expression for a column.
pub(crate) fn scope(engine: Engine, model: &[(String, bool)], column: impl Fn(&str) -> String) -> String {
    let texts = model.iter().map(|(name, is_bool)| dialect::as_text(engine, &column(name), *is_bool));
    dialect::json_of_texts(engine, &texts.collect::<Vec<_>>())
}

/// The index by which records without a number are found. A table that has it has been numbered.
pub(super) fn unnumbered(table: &str, column: &str) -> String {
    index_name(table, column, "unnumbered")
}

/// The statements that number the records of a table that has no numbers yet, in the order of their ids and after the numbers that
/// are there, and that store the last number of each scope.
pub(super) fn number(model: &Model, shape: Option<&TableShape>, engine: Engine) -> Vec<String> {
    let mut statements = Vec::new();
    for sequence in &model.sequences {
        let column = &model.fields[sequence.field].name;
        let index = unnumbered(&model.table, column);
        if shape.is_some_and(|shape| shape.indexes.iter().any(|there| there.name == index)) {
            continue;
        }
        if shape.is_some() {
            statements.extend(number_one(model, sequence, engine));
        }
        let (index, table, column) = (quoted(&index), quoted(&model.table), quoted(column));
        statements.push(format!("CREATE INDEX {index} ON {table} (\"id\") WHERE {column} IS NULL"));
    }
    statements
}

fn number_one(model: &Model, sequence: &Sequence, engine: Engine) -> [String; 2] {
    let (table, column) = (quoted(&model.table), quoted(&model.fields[sequence.field].name));
    let scope = scope(engine, &sequence.columns(model), quoted);
    let name = name(&model.table, &model.fields[sequence.field].name).replace('\'', "''");
    [
        format!(
            "UPDATE {table} SET {column} = \"_o\".\"n\" FROM (SELECT \"id\" AS \"i\", \
             COALESCE(MAX({column}) OVER (PARTITION BY {scope}), 0) + \
             ROW_NUMBER() OVER (PARTITION BY {scope}, {column} IS NULL ORDER BY \"id\") AS \"n\" FROM {table}) AS \"_o\" \
             WHERE \"_o\".\"i\" = {table}.\"id\" AND {table}.{column} IS NULL"
        ),
        format!(
            "INSERT INTO {TABLE} (name, scope, last) SELECT '{name}', {scope}, MAX({column}) FROM {table} \
             WHERE {column} IS NOT NULL GROUP BY {scope} ON CONFLICT (name, scope) DO UPDATE SET last = {}",
            dialect::greater(engine, &format!("{TABLE}.last"), "excluded.last")
        ),
    ]
}
