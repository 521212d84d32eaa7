//! Legacy tables without recorded migration steps, and integer columns for booleans.
//!
//! A database that was created by an earlier program has booleans in integer columns, and may have no record of its migration steps.
//! [`migrate`] and [`pending`] are those of [`crate::migrate`](crate::migrate()) for a component with such tables: first, they convert the
//! columns to native booleans in the same transaction, and they adopt existing tables that have every column that is needed.

use std::fmt::Write;

use crate::migrate::{MigrateError, ready, record, remembering, script, unapplied};
use crate::schema::{ColumnShape, TableShape, describe_in};
use crate::{Db, Engine, Error, Step, Tx, column_types, dialect, params};

/// The boolean columns of one table.
#[derive(Debug, Clone, Copy)]
pub struct Booleans {
    /// The table.
    pub table: &'static str,
    /// Its columns.
    pub columns: &'static [&'static str],
}

/// Runs the statements of [`pending`], and returns how many statements and steps there were.
pub async fn migrate(
    db: &Db,
    component: &'static str,
    steps: &'static [Step],
    booleans: &'static [Booleans],
) -> Result<usize, MigrateError> {
    let done = db
        .write(async move |tx: &Tx| {
            dialect::lock_schema(tx).await?;
            let work = look(tx, component, steps, booleans).await?;
            for statement in &work.statements {
                tx.execute_script(statement).await?;
            }
            if !work.adopted.is_empty() {
                ready(tx).await?;
            }
            for step in work.adopted {
                record(tx, component, step).await?;
            }
            Ok::<_, MigrateError>(work.statements.len() + work.adopted.len())
        })
        .await?;
    Ok(done + crate::migrate(db, component, steps).await?)
}

/// The SQL that is missing, for printing. Changes nothing.
pub async fn pending(
    db: &Db,
    component: &'static str,
    steps: &'static [Step],
    booleans: &'static [Booleans],
) -> Result<Vec<String>, MigrateError> {
    let work = db.read(async move |tx: &Tx| look(tx, component, steps, booleans).await).await?;
    let mut sql = work.statements;
    if work.adopted.is_empty() {
        sql.extend(crate::pending(db, component, steps).await?);
    } else {
        // The recorded steps must have no gap: the adopted ones are recorded together with the first missing one.
        let mut adopted = String::new();
        for step in work.adopted {
            adopted = adopted + &remembering(component, step, db.engine()) + ";\n";
        }
        let missing = steps[work.adopted.len()..].iter();
        sql.extend(missing.map(|step| std::mem::take(&mut adopted) + &script(component, step, db.engine())));
    }
    Ok(sql)
}

/// The work that the component's tables need before its steps.
struct Work {
    statements: Vec<String>,
    /// The first steps whose tables exist without a record of the step.
    adopted: &'static [Step],
}

async fn look(
    tx: &Tx,
    component: &'static str,
    steps: &'static [Step],
    booleans: &'static [Booleans],
) -> Result<Work, MigrateError> {
    let mut work = Work { statements: Vec::new(), adopted: &[] };
    if unapplied(tx, component).await? {
        work.adopted = present(tx, steps).await?;
        if work.adopted.is_empty() {
            return Ok(work);
        }
    }
    for Booleans { table, columns } in booleans {
        let Some(shape) = describe_in(tx, table).await? else { continue };
        for column in columns.iter().filter_map(|column| shape.column(column)) {
            if is_integer(column) {
                work.statements.push(match tx.engine() {
                    Engine::Sqlite => sqlite(tx, table, column).await?,
                    Engine::Postgres => postgres(tx, table, &shape, column).await?,
                });
            }
        }
    }
    Ok(work)
}

/// The first steps whose created tables and added columns all exist. An earlier program's tables are those of whole steps; if only some
/// tables of a step exist, the step fails and reports the conflicting one.
async fn present(tx: &Tx, steps: &'static [Step]) -> Result<&'static [Step], MigrateError> {
    for (index, step) in steps.iter().enumerate() {
        let (tables, added) = (declared(step.sql), added(step.sql));
        if tables.is_empty() && added.is_empty() {
            return Ok(&steps[..index]);
        }
        for (table, columns) in tables {
            let Some(shape) = describe_in(tx, &table).await? else { return Ok(&steps[..index]) };
            if let Some(column) = columns.into_iter().find(|column| shape.column(column).is_none()) {
                return Err(MigrateError::Foreign { table, column });
            }
        }
        for (table, column) in added {
            // An earlier program's table does not have a column that a later step adds.
            let shape = describe_in(tx, &table).await?;
            if shape.is_none_or(|shape| shape.column(&column).is_none()) {
                return Ok(&steps[..index]);
            }
        }
    }
    Ok(steps)
}

fn is_integer(column: &ColumnShape) -> bool {
    let name = column.type_name.split('(').next().unwrap_or_default().trim();
    name.ends_with("INT") || matches!(name, "INTEGER" | "INT2" | "INT4" | "INT8")
}

/// SQLite cannot change a column's type: a new column takes the old one's place. The table itself stays, since others may
/// refer to it.
async fn sqlite(tx: &Tx, table: &str, column: &ColumnShape) -> Result<String, Error> {
    let sql = "SELECT dflt_value FROM pragma_table_info(?1) WHERE name = ?2";
    let row = tx.query_opt(sql, params![table, &column.name]).await?;
    let default = row.map(|row| row.get::<Option<String>>("dflt_value")).transpose()?.flatten();
    let default = matches!(default.as_deref().map(|text| text.trim_matches(['(', ')', '\''])), Some("1"));
    let name = &column.name;
    Ok(format!(
        "ALTER TABLE {table} ADD COLUMN {name}_native BOOLEAN NOT NULL DEFAULT {default};
         UPDATE {table} SET {name}_native = COALESCE({name} <> 0, FALSE);
         ALTER TABLE {table} DROP COLUMN {name};
         ALTER TABLE {table} RENAME COLUMN {name}_native TO {name}"
    ))
}

async fn postgres(tx: &Tx, table: &str, shape: &TableShape, column: &ColumnShape) -> Result<String, Error> {
    let name = &column.name;
    let mut sql = format!("ALTER TABLE {table}");
    let checks = "SELECT k.conname::text AS name FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_attribute a ON a.attrelid = c.oid AND k.conkey = ARRAY[a.attnum]
        WHERE c.relname = ?1 AND c.relnamespace = current_schema()::regnamespace AND k.contype = 'c' AND a.attname = ?2";
    for check in tx.query(checks, params![table, name]).await? {
        // For a column that a check limited to 0 or 1, the type now ensures it.
        let _infallible = write!(sql, " DROP CONSTRAINT \"{}\",", check.get::<String>("name")?.replace('"', "\"\""));
    }
    let defaults = "SELECT pg_get_expr(d.adbin, d.adrelid)::text AS value FROM pg_attrdef d
        JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
        WHERE c.relname = ?1 AND c.relnamespace = current_schema()::regnamespace AND a.attname = ?2";
    let default = tx.query_opt(defaults, params![table, name]).await?;
    if default.is_some() {
        let _infallible = write!(sql, " ALTER COLUMN {name} DROP DEFAULT,");
    }
    let _infallible = write!(sql, " ALTER COLUMN {name} TYPE BOOLEAN USING COALESCE({name} <> 0, FALSE)");
    if shape.column(name).is_some_and(|column| column.nullable) {
        let _infallible = write!(sql, ", ALTER COLUMN {name} SET NOT NULL");
    }
    if let Some(default) = default {
        let _infallible = write!(sql, ", ALTER COLUMN {name} SET DEFAULT (({}) <> 0)", default.get::<String>("value")?);
    }
    Ok(sql)
}

/// The tables that a step's SQL creates, with their columns.
fn declared(sql: &str) -> Vec<(String, Vec<String>)> {
    let sql = column_types(sql, Engine::Sqlite);
    let tables = sql.split(';').filter_map(|statement| statement.trim().strip_prefix("CREATE TABLE "));
    let tables = tables.map(|rest| rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest));
    tables.filter_map(table).collect()
}

/// The columns that a step's SQL adds to tables, each with its table.
fn added(sql: &str) -> Vec<(String, String)> {
    let alterations = sql.split(';').filter_map(|statement| statement.trim().strip_prefix("ALTER TABLE "));
    let words = alterations.filter_map(|rest| rest.split_once(" ADD COLUMN "));
    words.filter_map(|(table, rest)| Some((table.trim().to_owned(), column(rest)?))).collect()
}

fn table(sql: &str) -> Option<(String, Vec<String>)> {
    let (name, rest) = sql.split_once('(')?;
    let body = rest.rsplit_once(')')?.0;
    let (mut depth, mut columns, mut entry) = (0, Vec::new(), String::new());
    for c in body.chars().chain([',']) {
        match c {
            ',' if depth == 0 => columns.extend(column(&std::mem::take(&mut entry))),
            _ => {
                depth += i32::from(c == '(') - i32::from(c == ')');
                entry.push(c);
            }
        }
    }
    Some((name.trim().to_owned(), columns))
}

/// The column that an entry defines; `None` for a constraint.
fn column(entry: &str) -> Option<String> {
    let word = entry.split_whitespace().next()?;
    (!matches!(word, "PRIMARY" | "UNIQUE" | "FOREIGN" | "CHECK" | "CONSTRAINT")).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_a_step_are_read_from_its_sql() {
        let sql = "CREATE TABLE a (id {text} PRIMARY KEY, kind {text} NOT NULL CHECK (kind IN ('x', 'y')),
                     PRIMARY KEY (id, kind));
                   CREATE INDEX a_kind ON a (kind);
                   CREATE TABLE b (a_id {text} REFERENCES a (id), n {int})";
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let sql_of_columns = "ALTER TABLE a ADD COLUMN x {text}; ALTER TABLE a ADD COLUMN y {int} NOT NULL DEFAULT 0;
                              CREATE INDEX a_x ON a (x)";
        let pair = |column: &str| ("a".to_owned(), column.to_owned());
        assert_eq!(added(sql_of_columns), [pair("x"), pair("y")]);
        assert!(declared(sql_of_columns).is_empty() && added(sql).is_empty());
        assert_eq!(declared(sql), [("a".to_owned(), names(&["id", "kind"])), ("b".to_owned(), names(&["a_id", "n"]))]);
    }
}
