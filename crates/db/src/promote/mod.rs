//! All rows of a SQLite database into an empty Postgres database that has the same tables.

mod checksum;
mod faults;
mod target;

use std::fmt::Write as _;
use std::sync::Arc;

use gatewright_base::Fitting;

use crate::dialect::{self, quoted};
use crate::schema::{self, ColumnShape, TableShape};
use crate::{Db, Engine, Error, RowRef, Tx, Value, params};

use checksum::{Checksum, Kind};

/// How many rows one INSERT has. A row may be megabytes large.
const ROWS: usize = 100;
/// Bytes of the rows that are read at once, in addition to one row of any size.
const BYTES: usize = 8 << 20;

/// The tables that remember the schema itself. Each database writes its own.
const OWN: &str = "gatewright_migrations";

/// One table that was copied and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// The same on both sides: a sum over all rows, in hexadecimal digits.
    pub checksum: String,
}

/// Why nothing was copied. The target has no row more than before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The target has rows.
    #[error("the target is not empty: it has rows in {}; use a new database", .0.join(", "))]
    NotEmpty(Vec<String>),
    /// The engines are not these.
    #[error("rows are copied from SQLite to Postgres")]
    Engines,
    /// Rows or values that do not fit the target.
    #[error(
        "the target has no place for these, because the configuration does not declare them: {}. Declare them, or leave them \
         behind with --leave",
        .0.join(", ")
    )]
    NoPlace(Vec<String>),
    /// The rows that were read back differ from the written ones.
    #[error(
        "the table {table} differs after copying ({rows} rows read, {written} in the target{}); everything was rolled back",
        place.as_deref().map(|place| format!("; the first difference is in {place}")).unwrap_or_default()
    )]
    Differs {
        /// The table.
        table: String,
        /// The first value that differs, by the id of its row and by its column.
        place: Option<String>,
        /// The rows of the source.
        rows: u64,
        /// Those of the target.
        written: u64,
    },
    /// A row cannot be stored.
    #[error("{place} of the table {table} cannot be stored: {error}")]
    Row {
        /// The table.
        table: String,
        /// The row by its id, and the column if it can be determined.
        place: String,
        /// Why.
        error: Error,
    },
    /// A database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

/// One table to copy.
struct Table {
    name: String,
    columns: Vec<(String, Kind)>,
}

/// Copies the rows of every table of `source`, a SQLite database without concurrent writes, into `target`, a Postgres
/// database with the same tables and without rows. This is one transaction: foreign keys are checked again, sequences
/// continue where they were, and each table is read back and compared. `leave` names tables, or columns as
/// `table.column`, that are not copied.
pub async fn promote(source: &Db, target: &Db, leave: &[String]) -> Result<Vec<Copied>, CopyError> {
    if source.engine() != Engine::Sqlite || target.engine() != Engine::Postgres {
        return Err(CopyError::Engines);
    }
    refuse_rows(target).await?;
    let tables = Arc::new(tables(source, target, leave).await?);
    let source = source.clone();
    target
        .write(async move |tx: &Tx| -> Result<Vec<Copied>, CopyError> {
            let names: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
            target::begin(tx, &names).await?;
            let keys = target::drop_foreign_keys(tx).await?;
            let mut copied = Vec::with_capacity(tables.len());
            for table in tables.iter() {
                copied.push(copy(tx, &source, table).await?);
                target::continue_sequence(tx, &table.name, counted(&source, &table.name).await?).await?;
            }
            target::add_foreign_keys(tx, keys).await?;
            target::index_again(tx).await?;
            Ok(copied)
        })
        .await
}

/// Fails if a table has rows. Those of the schema's own tables do not count.
pub async fn refuse_rows(target: &Db) -> Result<(), CopyError> {
    let filled = target.read(async |tx: &Tx| target::filled(tx).await).await?;
    if filled.is_empty() { Ok(()) } else { Err(CopyError::NotEmpty(filled)) }
}

/// The tables of the source with the columns that the target has too.
async fn tables(source: &Db, target: &Db, leave: &[String]) -> Result<Vec<Table>, CopyError> {
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
         AND name NOT LIKE 'gatewright\\_search%' ESCAPE '\\' ORDER BY name";
    let is_left = |name: &str| leave.iter().any(|left| left == name);
    let (mut tables, mut no_place) = (Vec::new(), Vec::new());
    for row in source.query(names, vec![]).await? {
        let name: String = row.get("name")?;
        if name == OWN || is_left(&name) {
            continue;
        }
        let Some(from) = schema::describe(source, &name).await? else { continue };
        let Some(to) = schema::describe(target, &name).await? else {
            let rows = count(source, &format!("SELECT count(*) AS found FROM {}", quoted(&name))).await?;
            if rows > 0 {
                no_place.push(format!("the table {name} ({rows} rows)"));
            }
            continue;
        };
        let columns = columns(&from, &to);
        let is_derived = |column: &ColumnShape| column.type_name == "WORDS_TEXT";
        let without_place = |column: &&ColumnShape| to.column(&column.name).is_none() && !is_derived(column);
        for column in from.columns.iter().filter(without_place) {
            let (full, quoted_column) = (format!("{name}.{}", column.name), quoted(&column.name));
            let sql = format!("SELECT count(*) AS found FROM {} WHERE {quoted_column} IS NOT NULL", quoted(&name));
            let values = if is_left(&full) { 0 } else { count(source, &sql).await? };
            if values > 0 {
                no_place.push(format!("the column {full} ({values} values)"));
            }
        }
        tables.push(Table { name, columns });
    }
    if no_place.is_empty() { Ok(tables) } else { Err(CopyError::NoPlace(no_place)) }
}

fn columns(from: &TableShape, to: &TableShape) -> Vec<(String, Kind)> {
    // Each engine has words in a form of its own: the target makes them again.
    let there = from.columns.iter().filter_map(|column| to.column(&column.name));
    let there = there.filter(|column| column.type_name != "TSVECTOR");
    there.map(|column| (column.name.clone(), Kind::of(&column.type_name))).collect()
}

async fn count(db: &Db, sql: &str) -> Result<i64, Error> {
    db.query_opt(sql.to_owned(), vec![]).await?.map_or(Ok(0), |row| row.get("found"))
}

/// Copies a table and compares it.
async fn copy(tx: &Tx, source: &Db, table: &Table) -> Result<Copied, CopyError> {
    let name = quoted(&table.name);
    let columns = table.columns.iter().map(|(column, _)| quoted(column)).collect::<Vec<_>>().join(", ");
    // The schema's own tables were filled when the tables were created.
    tx.execute(format!("DELETE FROM {name}"), vec![]).await?;
    let lengths = table.columns.iter().map(|(column, _)| {
        let length = dialect::byte_length(source.engine(), &quoted(column));
        format!("COALESCE({length}, 0)")
    });
    let size = lengths.collect::<Vec<_>>().join(" + ");
    let sizes = format!("SELECT {size} FROM {name} WHERE rowid > ?1 ORDER BY rowid LIMIT {ROWS}");
    // Bytes: of the next rows that fit, by their sizes.
    let select = format!("SELECT {columns}, rowid FROM {name} WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
    let (mut read, mut last) = (Checksum::default(), i64::MIN);
    loop {
        let each = |sizes: &mut Vec<((), usize)>, row: &RowRef<'_>| {
            sizes.push(((), usize::try_from(row.get::<i64>(0)?).unwrap_or(0)));
            Ok(())
        };
        let sizes = source.fold(sizes.clone(), params![last], Vec::new(), each).await?;
        let limit = i64::try_from(Fitting::of(sizes, BYTES).taken.len()).unwrap_or(i64::MAX);
        let rows = source.query(select.clone(), params![last, limit]).await?;
        let Some(Value::Int(number)) = rows.last().and_then(|row| row.values().last()) else { break };
        last = *number;
        let count = rows.len();
        let mut values = Vec::with_capacity(count * table.columns.len());
        for row in &rows {
            let row = &row.values()[..table.columns.len()];
            read.add(row.iter().zip(&table.columns).map(|(value, (_, kind))| (value, *kind)));
            values.extend_from_slice(row);
        }
        let sql = format!("INSERT INTO {name} ({columns}) VALUES {}", placeholders(count, table.columns.len()));
        target::begin_part(tx).await?;
        if let Err(error) = tx.execute(sql, values).await {
            target::undo_part(tx).await?;
            return Err(faults::row(tx, table, &rows, error).await);
        }
        target::end_part(tx).await?;
    }
    let written = tx
        // Bytes: one row at a time.
        .fold(format!("SELECT {columns} FROM {name}"), vec![], Checksum::default(), |sum, row| {
            let values: Vec<Value> = (0..table.columns.len())
                .map(|index| row.value(index).map(|value| value.to_value()))
                .collect::<Result<_, _>>()?;
            sum.add(values.iter().zip(&table.columns).map(|(value, (_, kind))| (value, *kind)));
            Ok(())
        })
        .await?;
    if written != read {
        let place = faults::difference(tx, source, table).await?;
        let (table, rows, written) = (table.name.clone(), read.rows(), written.rows());
        return Err(CopyError::Differs { table, place, rows, written });
    }
    Ok(Copied { table: table.name.clone(), rows: read.rows(), checksum: read.to_string() })
}

/// `(?1, ?2), (?3, ?4)`
fn placeholders(rows: usize, columns: usize) -> String {
    let mut text = String::new();
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..columns {
            let comma = if column == 0 { "" } else { ", " };
            let _infallible = write!(text, "{comma}?{}", row * columns + column + 1);
        }
        text.push(')');
    }
    text
}

/// The last number that the source gave to a row of the table, if it gives any.
async fn counted(source: &Db, table: &str) -> Result<Option<i64>, Error> {
    let sequences = "SELECT count(*) AS found FROM sqlite_master WHERE name = 'sqlite_sequence'";
    if count(source, sequences).await? == 0 {
        return Ok(None);
    }
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    source.query_opt(sql, params![table]).await?.map(|row| row.get("seq")).transpose()
}
