//! All tables against the database.

use gatewright_db::schema::describe_in;
use gatewright_db::{Tx, column_types};

use super::compare::Compare;
use super::order::creation_order;
use super::rename::{self, Present};
use super::table::Table;
use super::{Changes, Refusal, SchemaError, Users};
use crate::declare::{Model, Target, names};

/// What is missing, or why it cannot be made.
pub(super) async fn changes(tx: &Tx, models: &[Model], users: &Users) -> Result<Changes, SchemaError> {
    let mut changes = Changes::default();
    let mut refusals = Vec::new();
    if let Some(refusal) = check_users(tx, models, users).await? {
        refusals.push(refusal);
    }
    let (mut opening, mut closing) = (Vec::new(), Vec::new());
    let renamed = rename::tables(tx, models).await?;
    for (index, later) in creation_order(models) {
        let table = Table::of(&models[index], models, users, tx.engine());
        match Present::find(tx, &models[index], &renamed, &mut opening).await? {
            None => {
                changes.statements.push(table.create(&later));
                let waiting = table.columns.iter().filter(|column| later.contains(&&*column.name));
                closing.extend(waiting.map(|column| column.add(&table.name, false)));
                closing.extend(table.indexes.iter().map(|index| index.create(&table.name)));
            }
            Some(present) => {
                let rows = has_rows(tx, &table, &present).await?;
                let repeats = repeats(tx, &table, &present).await?;
                let compare =
                    Compare { table: &table, shape: &present.shape, rows, repeats: &repeats, engine: tx.engine() };
                compare.run(&mut changes, &mut closing, &mut refusals);
            }
        }
    }
    changes.statements.splice(0..0, opening);
    changes.statements.append(&mut closing);
    if refusals.is_empty() { Ok(changes) } else { Err(SchemaError::Refused(refusals)) }
}

/// Relations to users need the users' table, with an id that they can refer to.
async fn check_users(tx: &Tx, models: &[Model], users: &Users) -> Result<Option<Refusal>, SchemaError> {
    let mut relations = models.iter().flat_map(|model| &model.fields).filter_map(|field| field.relation);
    let Users::Table(name) = users else { return Ok(None) };
    if !relations.any(|relation| relation.to == Target::Users) {
        return Ok(None);
    }
    let reason = match describe_in(tx, name).await? {
        None => "relations to users need it, and it is not there".to_owned(),
        Some(shape) => {
            let text = column_types("{text}", tx.engine());
            let fits = |id: &gatewright_db::schema::ColumnShape| text.starts_with(&id.type_name);
            match shape.column("id") {
                Some(id) if fits(id) => return Ok(None),
                Some(id) => format!("relations to users need its id to be text, and it is {}", id.type_name),
                None => "relations to users need its id, which is not there".to_owned(),
            }
        }
    };
    Ok(Some(Refusal { table: name.clone(), column: Some("id".to_owned()), reason, sql: Vec::new() }))
}

/// Whether the table has rows; asked only where a column would be added.
async fn has_rows(tx: &Tx, table: &Table, present: &Present) -> Result<bool, SchemaError> {
    if table.columns.iter().all(|column| present.shape.column(&column.name).is_some()) {
        return Ok(true);
    }
    let sql = format!("SELECT 1 AS found FROM {} LIMIT 1", present.table());
    Ok(tx.query_opt(sql, Vec::new()).await?.is_some())
}

/// The columns that are to become unique and hold some value twice.
async fn repeats(tx: &Tx, table: &Table, present: &Present) -> Result<Vec<String>, SchemaError> {
    let shape = &present.shape;
    let mut repeated = Vec::new();
    for index in table.indexes.iter().filter(|index| index.unique) {
        let Some(column) = index.columns.last() else { continue };
        let is_there = shape.indexes.iter().any(|there| index.is(&table.name, there));
        // Rows that have no value in some column, as all have in one that is yet to come, repeat nothing.
        if is_there || present.had(index) || index.columns.iter().any(|column| shape.column(column).is_none()) {
            continue;
        }
        let columns: Vec<String> = index.columns.iter().map(|column| present.column(column)).collect();
        // Where the column is yet to be made, nothing is deleted.
        let live = index.live && shape.column(names::DELETED_COLUMN).is_some();
        let live = if live { " AND \"deleted_at\" IS NULL" } else { "" };
        let sql = format!(
            "SELECT 1 AS found FROM {} WHERE {} IS NOT NULL{live} GROUP BY {} HAVING COUNT(*) > 1 LIMIT 1",
            present.table(),
            columns.join(" IS NOT NULL AND "),
            columns.join(", ")
        );
        if tx.query_opt(sql, Vec::new()).await?.is_some() {
            repeated.push(column.clone());
        }
    }
    Ok(repeated)
}
