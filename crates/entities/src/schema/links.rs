//! The tables of links of relations to many records.

use gatewright_db::schema::{TableShape, describe_in};
use gatewright_db::{Tx, dialect};

use super::table::Table;
use super::{SchemaError, Users};
use crate::condition::{LINK, LINKING};
use crate::declare::Model;
use crate::declare::model::{ModelField, links_table};
use crate::fragment::quoted;

/// The statements that create or rename them, to run after those of the entities' tables.
pub(super) async fn statements(tx: &Tx, models: &[Model], users: &Users) -> Result<Vec<String>, SchemaError> {
    let mut statements = Vec::new();
    for model in models {
        for field in model.fields.iter().filter(|field| field.links.is_some()) {
            let table = Table::of_links(model, field, models, users, tx.engine());
            if describe_in(tx, &table.name).await?.is_some() {
                continue;
            }
            match under_an_old_name(tx, model, field).await? {
                Some((old, shape)) => {
                    statements.push(format!("ALTER TABLE {} RENAME TO {}", quoted(&old), quoted(&table.name)));
                    // They are named after the table.
                    let ours = shape.indexes.iter().filter(|index| index.name.starts_with(&format!("{old}.")));
                    statements.extend(ours.map(|index| format!("DROP INDEX {}", quoted(&index.name))));
                }
                None => {
                    statements.push(table.create(&[]));
                    statements.push(fill(tx, model, field, &table));
                }
            }
            statements.extend(table.indexes.iter().map(|index| index.create(&table.name)));
        }
    }
    Ok(statements)
}

/// The table that had the links before the entity or the field was renamed.
async fn under_an_old_name(
    tx: &Tx,
    model: &Model,
    field: &ModelField,
) -> Result<Option<(String, TableShape)>, SchemaError> {
    let tables = [Some(&*model.table), model.renamed_from.as_deref()];
    let columns = [Some(&*field.name), field.renamed_from.as_deref()];
    for table in tables.into_iter().flatten() {
        for column in columns.into_iter().flatten() {
            let old = links_table(table, column);
            if let Some(shape) = describe_in(tx, &old).await? {
                return Ok(Some((old, shape)));
            }
        }
    }
    Ok(None)
}

/// Links the ids that lists have already: those of a field that was a list before.
fn fill(tx: &Tx, model: &Model, field: &ModelField, links: &Table) -> String {
    let (table, column) = (quoted(&model.table), quoted(&field.name));
    let of = format!("{table}.{column}");
    let ids = match tx.engine() {
        gatewright_db::Engine::Sqlite => {
            format!("SELECT {table}.\"id\", \"_l\".value, \"_l\".key FROM {table}, json_each({of}) AS \"_l\"")
        }
        gatewright_db::Engine::Postgres => format!(
            "SELECT {table}.\"id\", \"_l\".{LINK}, \"_l\".position FROM {table}, LATERAL {} AS \"_l\"",
            dialect::numbered_elements(tx.engine(), &of)
        ),
    };
    format!("INSERT INTO {} ({LINKING}, {LINK}, position) {ids}", quoted(&links.name))
}
