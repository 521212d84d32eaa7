//! Counts rows that prevent a change.

use gatewright_db::schema::describe_in;
use gatewright_db::{Engine, Tx, dialect};

use super::SchemaError;
use super::convert::Conversion;
use super::rename::Present;
use super::script::qualified;
use super::table::Table;
use crate::declare::model::unfolded;
use crate::declare::names;
use crate::fragment::quoted;

/// The counts of a table's rows.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    /// Whether the table has rows.
    pub(super) rows: bool,
    /// Keys that rows share.
    pub(super) repeats: Vec<Repeats>,
    /// Columns that have no null, in tables whose rows have some.
    pub(super) nulls: Vec<String>,
    /// Columns that change their type: how many values do not convert, and the condition for these.
    pub(super) unconvertible: Vec<(String, i64, String)>,
    /// Columns that become relations: how many values refer to no record, and the condition for these.
    pub(super) dangling: Vec<(String, i64, String)>,
    /// Tables that relations refer to and that do not exist yet.
    pub(super) unmade: Vec<String>,
}

/// Values of a key to come that occur in several rows.
#[derive(Debug)]
pub(super) struct Repeats {
    /// The name of the key's index.
    pub(super) index: String,
    /// How many.
    pub(super) shared: i64,
    /// Lists them.
    pub(super) query: String,
}

impl Obstacles {
    pub(super) async fn count(tx: &Tx, table: &Table, present: &Present) -> Result<Self, SchemaError> {
        let mut found = Self { rows: has_rows(tx, table, present).await?, ..Self::default() };
        found.repeats = repeats(tx, table, present).await?;
        // The scripts for the following are printed only if no rename is pending.
        if present.is_renamed() {
            return Ok(found);
        }
        for column in &table.columns {
            let Some(there) = present.shape.column(&column.name) else { continue };
            if let Some((missing, _)) = column.without_null(&table.name).filter(|_| there.nullable)
                && count(tx, &table.name, &missing).await? > 0
            {
                found.nulls.push(column.name.clone());
            }
            let name = qualified(&table.name, &column.name);
            let conversion = Conversion::of(&there.type_name, column.type_name(), &name);
            if tx.engine() == Engine::Sqlite
                && let Some(fails) = conversion.fails
            {
                let count = count(tx, &table.name, &fails).await?;
                found.unconvertible.extend((count > 0).then(|| (column.name.clone(), count, fails)));
            }
            let Some(reference) = &column.reference else { continue };
            if present.shape.foreign_keys.iter().any(|key| key.column == column.name && key.table == reference.table) {
                continue;
            }
            if describe_in(tx, &reference.table).await?.is_none() {
                found.unmade.push(reference.table.clone());
                continue;
            }
            let value = if tx.engine() == Engine::Sqlite { conversion.value } else { format!("{name}::text") };
            let target = qualified(&reference.table, "id");
            // A table may refer to itself, so that the target needs another name.
            let target = target.replacen(&quoted(&reference.table), "\"target\"", 1);
            let dangles = format!(
                "{name} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {} AS \"target\" WHERE {target} = {value})",
                quoted(&reference.table)
            );
            let count = count(tx, &table.name, &dangles).await?;
            found.dangling.extend((count > 0).then(|| (column.name.clone(), count, dangles)));
        }
        Ok(found)
    }
}

async fn count(tx: &Tx, table: &str, condition: &str) -> Result<i64, SchemaError> {
    let sql = format!("SELECT COUNT(*) AS found FROM {} WHERE {condition}", quoted(table));
    Ok(tx.query_opt(sql, Vec::new()).await?.map(|row| row.get("found")).transpose()?.unwrap_or(0))
}

/// Whether the table has rows; queried only if a column would be added.
async fn has_rows(tx: &Tx, table: &Table, present: &Present) -> Result<bool, SchemaError> {
    if table.columns.iter().all(|column| present.shape.column(&column.name).is_some()) {
        return Ok(true);
    }
    let sql = format!("SELECT 1 AS found FROM {} LIMIT 1", present.table());
    Ok(tx.query_opt(sql, Vec::new()).await?.is_some())
}

/// The keys to come whose values occur in several rows.
async fn repeats(tx: &Tx, table: &Table, present: &Present) -> Result<Vec<Repeats>, SchemaError> {
    let shape = &present.shape;
    let mut repeated = Vec::new();
    for index in table.indexes.iter().filter(|index| index.unique) {
        let is_there = shape.indexes.iter().any(|there| index.is(&table.name, there));
        // A row with a null in one of the columns, as in every column that will be added, is not a duplicate.
        let is_added = |column: &String| shape.column(unfolded(column)).is_none();
        if is_there || present.had(index) || index.columns.iter().any(is_added) {
            continue;
        }
        // If the column will be added, nothing is deleted.
        let live = index.live && shape.column(names::DELETED_COLUMN).is_some();
        let shared = |columns: &[String], table: &str, deleted_at: &str| {
            let live = if live { format!(" AND {deleted_at} IS NULL") } else { String::new() };
            let (given, names) = (columns.join(" IS NOT NULL AND "), columns.join(", "));
            format!("FROM {table} WHERE {given} IS NOT NULL{live} GROUP BY {names} HAVING COUNT(*) > 1")
        };
        let columns: Vec<String> =
            index.columns.iter().map(|column| value(column, |name| present.column(name))).collect();
        let sql = format!(
            "SELECT COUNT(*) AS found FROM (SELECT 1 {}) AS shared",
            shared(&columns, &present.table(), &quoted(names::DELETED_COLUMN))
        );
        let count: i64 = tx.query_opt(sql, Vec::new()).await?.map(|row| row.get("found")).transpose()?.unwrap_or(0);
        if count > 0 {
            let columns: Vec<String> =
                index.columns.iter().map(|column| value(column, |name| qualified(&table.name, name))).collect();
            let rest = shared(&columns, &quoted(&table.name), &qualified(&table.name, names::DELETED_COLUMN));
            let query = format!("SELECT {}, COUNT(*) {rest}", columns.join(", "));
            repeated.push(Repeats { index: index.name.clone(), shared: count, query });
        }
    }
    Ok(repeated)
}

/// What a column of an index holds, computed from the column that clients write.
fn value(column: &str, name: impl Fn(&str) -> String) -> String {
    let written = unfolded(column);
    if written == column { name(column) } else { dialect::folded(&name(written)) }
}
