//! The Postgres side: parts of its tables that would prevent inserts. They are removed before and restored after.

use crate::dialect::quoted;
use crate::schema::describe_in;
use crate::{Error, Tx, params};

/// A foreign key: its table and its definition.
pub(super) struct ForeignKey {
    table: String,
    name: String,
    definition: String,
}

/// The tables that have rows, except the schema's own. Tables of other extensions and views have no rows of their own.
pub(super) async fn filled(tx: &Tx) -> Result<Vec<String>, Error> {
    let tables = "SELECT c.relname::text AS name FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'f')
        AND c.relname NOT LIKE 'gatewright\\_%' ORDER BY c.relname";
    let mut filled = Vec::new();
    for row in tx.query(tables, vec![]).await? {
        let name: String = row.get("name")?;
        let sql = format!("SELECT 1 AS found FROM {} LIMIT 1", quoted(&name));
        if tx.query_opt(sql, vec![]).await?.is_some() {
            filled.push(name);
        }
    }
    Ok(filled)
}

/// Locks the tables against all other clients, and checks once more that they are empty.
pub(super) async fn begin(tx: &Tx, tables: &[&str]) -> Result<(), super::CopyError> {
    // Checking millions of rows against a foreign key takes long.
    tx.execute_script("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0").await?;
    for table in tables {
        tx.execute_script(&format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", quoted(table))).await?;
    }
    let filled = filled(tx).await?;
    if filled.is_empty() { Ok(()) } else { Err(super::CopyError::NotEmpty(filled)) }
}

/// Begins a part of the transaction that [`undo_part`] can undo.
pub(super) async fn begin_part(tx: &Tx) -> Result<(), Error> {
    tx.execute_script("SAVEPOINT part").await
}

/// Ends the part.
pub(super) async fn end_part(tx: &Tx) -> Result<(), Error> {
    tx.execute_script("RELEASE SAVEPOINT part").await
}

/// Undoes the part and ends it.
pub(super) async fn undo_part(tx: &Tx) -> Result<(), Error> {
    tx.execute_script("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part").await
}

/// Removes foreign keys, so that rows may be inserted in any order.
pub(super) async fn drop_foreign_keys(tx: &Tx) -> Result<Vec<ForeignKey>, Error> {
    let keys =
        "SELECT c.relname::text AS table_name, f.conname::text AS name, pg_get_constraintdef(f.oid) AS definition
        FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid
        WHERE f.contype = 'f' AND f.connamespace = current_schema()::regnamespace ORDER BY f.conname";
    let mut dropped = Vec::new();
    for row in tx.query(keys, vec![]).await? {
        let key =
            ForeignKey { table: row.get("table_name")?, name: row.get("name")?, definition: row.get("definition")? };
        let sql = format!("ALTER TABLE {} DROP CONSTRAINT {}", quoted(&key.table), quoted(&key.name));
        tx.execute_script(&sql).await?;
        dropped.push(key);
    }
    Ok(dropped)
}

/// Restores them, which checks all rows.
pub(super) async fn add_foreign_keys(tx: &Tx, keys: Vec<ForeignKey>) -> Result<(), Error> {
    for ForeignKey { table, name, definition } in keys {
        let sql = format!("ALTER TABLE {} ADD CONSTRAINT {} {definition}", quoted(&table), quoted(&name));
        tx.execute_script(&sql).await?;
    }
    Ok(())
}

/// The numbers of the table's identity column continue after `last` and after the existing ones.
pub(super) async fn continue_sequence(tx: &Tx, table: &str, last: Option<i64>) -> Result<(), Error> {
    let column = "SELECT a.attname::text AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relname = ?1 AND c.relnamespace = current_schema()::regnamespace AND a.attidentity <> ''";
    let Some(row) = tx.query_opt(column, params![table]).await? else { return Ok(()) };
    let column: String = row.get("name")?;
    let highest = format!("SELECT max({}) AS highest FROM {}", quoted(&column), quoted(table));
    let highest = match tx.query_opt(highest, vec![]).await? {
        Some(row) => row.get::<Option<i64>>("highest")?,
        None => None,
    };
    let Some(last) = last.max(highest).filter(|last| *last > 0) else { return Ok(()) };
    let set = "SELECT setval(pg_get_serial_sequence(?1, ?2), ?3)::text";
    tx.query(set, params![quoted(table), column, last]).await.map(|_| ())
}

/// Records are searched by words that the copied ones do not have yet: the server makes them in batches.
pub(super) async fn index_again(tx: &Tx) -> Result<(), Error> {
    for (table, sql) in [
        ("gatewright_search", "UPDATE gatewright_search SET last_id = '', is_built = FALSE"),
        ("gatewright_marks", "DELETE FROM gatewright_marks WHERE field = '.words'"),
    ] {
        if describe_in(tx, table).await?.is_some() {
            tx.execute(sql, vec![]).await?;
        }
    }
    Ok(())
}
