//! Sequences: the table of the last numbers, and the numbers of records that were there before.

use gatewright_db::schema::TableShape;
use gatewright_db::{Engine, column_types, dialect};

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

/// The statement that gives the next number of a sequence in a scope, as the column `number`. `name` is a text of ours, `scope` an
/// expression.
pub(crate) fn next(name: &str, scope: &str) -> String {
    let name = name.replace('\'', "''");
    format!(
        "INSERT INTO {TABLE} (name, scope, last) VALUES ('{name}', {scope}, 1) \
         ON CONFLICT (name, scope) DO UPDATE SET last = {TABLE}.last + 1 RETURNING last AS number"
    )
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

/// The statements that number the records of a table that are without a number, in the order of their ids and after the numbers
/// that are there, and that store the last number of each scope.
pub(super) fn number(model: &Model, engine: Engine) -> Vec<String> {
    model.sequences.iter().flat_map(|sequence| number_one(model, sequence, engine)).collect()
}

/// Whether a table that is there gets a sequence.
pub(super) fn is_new(model: &Model, shape: &TableShape) -> bool {
    model.sequences.iter().any(|sequence| shape.column(&model.fields[sequence.field].name).is_none())
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
             WHERE {column} IS NOT NULL GROUP BY 2 ON CONFLICT (name, scope) DO UPDATE SET last = {}",
            dialect::greater(engine, &format!("{TABLE}.last"), "excluded.last")
        ),
    ]
}
