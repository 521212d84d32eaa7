//! Records renames, so that a configuration from before a rename is recognised.
//!
//! Such a configuration does not find its table or column. Without the record it would create an empty one beside the
//! renamed one and write to it.

use gatewright_db::schema::{TableShape, describe_in};
use gatewright_db::{Db, Error, Tx, column_types, dialect, params};

use super::{Refusal, SchemaError};
use crate::declare::Model;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS gatewright_renames (
    entity_table {text} NOT NULL, old_name {text} NOT NULL, new_name {text} NOT NULL, renamed_at {time} NOT NULL,
    PRIMARY KEY (entity_table, old_name))";

/// Creates the table that records renames, if it is missing. The first rename creates it too.
pub async fn make_history(db: &Db) -> Result<(), Error> {
    db.execute(column_types(TABLE, db.engine()), Vec::new()).await.map(|_| ())
}

/// A remembered rename. Of a table, `table` is empty; of a column, it is the table's present name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Renamed {
    table: String,
    from: String,
    to: String,
}

#[derive(Debug, Default)]
pub(super) struct History(Vec<Renamed>);

impl History {
    pub(super) async fn load(tx: &Tx) -> Result<Self, SchemaError> {
        if describe_in(tx, "gatewright_renames").await?.is_none() {
            return Ok(Self::default());
        }
        let rows = tx.query("SELECT entity_table, old_name, new_name FROM gatewright_renames", Vec::new()).await?;
        let renamed = rows.iter().map(|row| {
            Ok(Renamed { table: row.get("entity_table")?, from: row.get("old_name")?, to: row.get("new_name")? })
        });
        Ok(Self(renamed.collect::<Result<_, Error>>()?))
    }

    /// A missing table that was renamed to one that is there and that no entity declares.
    pub(super) async fn table(&self, tx: &Tx, model: &Model, models: &[Model]) -> Result<Option<Refusal>, SchemaError> {
        for name in self.successors("", &model.table) {
            if models.iter().all(|other| *other.table != *name) && describe_in(tx, name).await?.is_some() {
                let reason = older("table", "entity", name);
                let sql = vec![forget("", &model.table)];
                return Ok(Some(Refusal { table: model.table.to_string(), column: None, reason, sql }));
            }
        }
        Ok(None)
    }

    /// Missing columns that were renamed to columns that are there and that no field declares.
    pub(super) fn columns(&self, model: &Model, shape: &TableShape) -> Vec<Refusal> {
        let declared = |name: &str| model.fields.iter().any(|field| field.name == name);
        let missing = model.fields.iter().filter(|field| shape.column(&field.name).is_none());
        missing
            .filter_map(|field| {
                let mut successors = self.successors(&model.table, &field.name);
                let name = successors.find(|name| shape.column(name).is_some() && !declared(name))?;
                Some(Refusal {
                    table: model.table.to_string(),
                    column: Some(field.name.clone()),
                    reason: older("column", "field", name),
                    sql: vec![forget(&model.table, &field.name)],
                })
            })
            .collect()
    }

    /// Records the declared renames that are done.
    pub(super) async fn record(&self, tx: &Tx, models: &[Model]) -> Result<(), SchemaError> {
        let mut made = Vec::new();
        for model in models {
            if let Some(old) = &model.renamed_from
                && describe_in(tx, old).await?.is_none()
            {
                made.push(Renamed { table: String::new(), from: old.clone(), to: model.table.to_string() });
            }
            if model.fields.iter().all(|field| field.renamed_from.is_none()) {
                continue;
            }
            let Some(shape) = describe_in(tx, &model.table).await? else { continue };
            for field in &model.fields {
                let Some(old) = field.renamed_from.as_ref().filter(|old| shape.column(old).is_none()) else { continue };
                made.push(Renamed { table: model.table.to_string(), from: old.clone(), to: field.name.clone() });
            }
        }
        made.retain(|renamed| !self.0.contains(renamed));
        if made.is_empty() {
            return Ok(());
        }
        tx.execute(column_types(TABLE, tx.engine()), Vec::new()).await?;
        for renamed in &made {
            remember(tx, renamed).await?;
        }
        Ok(())
    }

    /// The later names of a name.
    fn successors<'a>(&'a self, table: &'a str, name: &'a str) -> impl Iterator<Item = &'a String> {
        // A cycle of renames ends: each name has one successor, and their number is finite.
        std::iter::successors(self.step(table, name), move |name| self.step(table, name)).take(self.0.len())
    }

    fn step(&self, table: &str, name: &str) -> Option<&String> {
        self.0.iter().find(|renamed| renamed.table == table && renamed.from == name).map(|renamed| &renamed.to)
    }
}

async fn remember(tx: &Tx, renamed: &Renamed) -> Result<(), Error> {
    let Renamed { table, from, to } = renamed;
    let upsert = format!(
        "INSERT INTO gatewright_renames (entity_table, old_name, new_name, renamed_at) VALUES (?1, ?2, ?3, {})
         ON CONFLICT (entity_table, old_name) DO UPDATE SET new_name = excluded.new_name, renamed_at = excluded.renamed_at",
        dialect::now(tx.engine())
    );
    tx.execute(upsert, params![table, from, to]).await?;
    // The new name is in use again, so it was renamed to nothing.
    let forget = "DELETE FROM gatewright_renames WHERE entity_table = ?1 AND old_name = ?2";
    tx.execute(forget, params![table, to]).await?;
    if table.is_empty() {
        let gone = "DELETE FROM gatewright_renames WHERE entity_table = ?1";
        tx.execute(gone, params![to]).await?;
        let follow = "UPDATE gatewright_renames SET entity_table = ?2 WHERE entity_table = ?1";
        tx.execute(follow, params![from, to]).await?;
    }
    Ok(())
}

fn older(what: &str, declared: &str, name: &str) -> String {
    format!(
        "a newer configuration renamed this {what} to \"{name}\", which this configuration does not declare; start the \
         newer configuration, or, to go back, add renamed_from = \"{name}\" to the {declared}. If it is a new {declared} \
         that has the old name by intention, make the database forget the rename"
    )
}

fn forget(table: &str, name: &str) -> String {
    format!(
        "DELETE FROM gatewright_renames WHERE gatewright_renames.entity_table = '{table}' AND \
         gatewright_renames.old_name = '{name}'"
    )
}
