//! Which row and which column prevented a copy. Everything is rolled back in any case; this takes the time to say why.

use super::checksum::canonical;
use super::{CopyError, Table, placeholders, target};
use crate::dialect::quoted;
use crate::{Db, Error, Row, Tx, Value, params};

/// The column that names a row.
const ID: &str = "id";

/// The error for rows of which one could not be stored. They are stored one by one, and the values of the failing one
/// alone.
pub(super) async fn row(tx: &Tx, table: &Table, rows: &[Row], error: Error) -> CopyError {
    match failing(tx, table, rows).await {
        Ok(Some((place, error))) => CopyError::Row { table: table.name.clone(), place, error },
        Ok(None) => CopyError::Row { table: table.name.clone(), place: "a row".to_owned(), error },
        Err(lost) => CopyError::Database(lost),
    }
}

async fn failing(tx: &Tx, table: &Table, rows: &[Row]) -> Result<Option<(String, Error)>, Error> {
    let columns = table.columns.iter().map(|(column, _)| quoted(column)).collect::<Vec<_>>().join(", ");
    let name = quoted(&table.name);
    let insert = format!("INSERT INTO {name} ({columns}) VALUES {}", placeholders(1, table.columns.len()));
    for row in rows {
        let values = &row.values()[..table.columns.len()];
        let Err(error) = attempt(tx, &insert, values.to_vec()).await? else { continue };
        let mut place = named(table, values);
        for ((column, _), value) in table.columns.iter().zip(values) {
            // The placeholder has the type of the column.
            let compare = format!("SELECT 1 AS found FROM {name} WHERE {} = ?1 LIMIT 1", quoted(column));
            if attempt(tx, &compare, vec![value.clone()]).await?.is_err() {
                place = format!("the column {column} of {place}");
                break;
            }
        }
        return Ok(Some((place, error)));
    }
    Ok(None)
}

/// Runs a statement and undoes it if it fails.
async fn attempt(tx: &Tx, sql: &str, values: Vec<Value>) -> Result<Result<(), Error>, Error> {
    target::begin_part(tx).await?;
    match tx.query(sql.to_owned(), values).await {
        Ok(_) => target::end_part(tx).await.map(Ok),
        Err(error) => target::undo_part(tx).await.map(|()| Err(error)),
    }
}

/// The first value of the source that the target has otherwise. `None` if the table has no id, or if rows are missing.
pub(super) async fn difference(tx: &Tx, source: &Db, table: &Table) -> Result<Option<String>, Error> {
    if !table.columns.iter().any(|(column, _)| column == ID) {
        return Ok(None);
    }
    let columns = table.columns.iter().map(|(column, _)| quoted(column)).collect::<Vec<_>>().join(", ");
    let name = quoted(&table.name);
    // Bytes: one row.
    let from = format!("SELECT {columns}, rowid FROM {name} WHERE rowid > ?1 ORDER BY rowid LIMIT 1");
    // Bytes: one row.
    let to = format!("SELECT {columns} FROM {name} WHERE \"{ID}\" = ?1");
    let mut last = i64::MIN;
    loop {
        let Some(row) = source.query_opt(from.clone(), params![last]).await? else { return Ok(None) };
        let Some((Value::Int(number), values)) = row.values().split_last() else { return Ok(None) };
        last = *number;
        let id = table.columns.iter().position(|(column, _)| column == ID).map(|at| values[at].clone());
        let Some(copy) = tx.query_opt(to.clone(), id.into_iter().collect()).await? else {
            return Ok(Some(named(table, values)));
        };
        for (((column, kind), value), copy) in table.columns.iter().zip(values).zip(copy.values()) {
            if canonical(value, *kind) != canonical(copy, *kind) {
                return Ok(Some(format!("the column {column} of {}", named(table, values))));
            }
        }
    }
}

/// A row by its id, or by its first value.
fn named(table: &Table, values: &[Value]) -> String {
    let at = table.columns.iter().position(|(column, _)| column == ID).unwrap_or(0);
    let (Some((column, _)), Some(value)) = (table.columns.get(at), values.get(at)) else { return "a row".to_owned() };
    match value {
        Value::Text(text) => format!("the row with {column} {text:?}"),
        Value::Int(number) => format!("the row with {column} {number}"),
        _ => "a row".to_owned(),
    }
}
