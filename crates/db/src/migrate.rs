//! Migrations: ordered steps for the tables of a component.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{Db, Engine, Error, Tx, column_types, dialect, params};

/// One change of a component's tables. Released steps are never edited: a database remembers their checksums.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Counted from 1 without gaps.
    pub version: i64,
    /// A short description.
    pub name: &'static str,
    /// Statements separated by `;`, with the type words of [`column_types`].
    pub sql: &'static str,
}

/// Why tables could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database refused.
    #[error(transparent)]
    Database(#[from] Error),
    /// A step was changed after it was applied.
    #[error("step {version} ({name}) of {component} differs from the one that this database was created with")]
    Changed {
        /// The component.
        component: String,
        /// Which step.
        version: i64,
        /// Its name.
        name: String,
    },
    /// A table of this name exists, and does not belong to the component.
    #[error("there is a table {table} already, and it has no column {column}: this program did not create it")]
    Foreign {
        /// The table.
        table: String,
        /// The missing column.
        column: String,
    },
    /// The database was migrated by a newer program.
    #[error("{component} is at step {found} here, and this program knows {known}; run the newer program")]
    Newer {
        /// The component.
        component: String,
        /// The last step that was applied.
        found: usize,
        /// The last step that is known.
        known: usize,
    },
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS gatewright_migrations (
    component {text} NOT NULL, version {int} NOT NULL, name {text} NOT NULL, checksum {text} NOT NULL,
    applied_at {time} NOT NULL, PRIMARY KEY (component, version))";

/// Applies the missing steps, in one transaction under the schema lock, and returns their number.
///
/// If two replicas start together, the second waits and finds nothing left to do.
pub async fn migrate(db: &Db, component: &'static str, steps: &'static [Step]) -> Result<usize, MigrateError> {
    db.write(async move |tx: &Tx| {
        dialect::lock_schema(tx).await?;
        ready(tx).await?;
        let missing = missing(tx, component, steps).await?;
        for step in missing {
            tx.execute_script(&column_types(step.sql, tx.engine())).await?;
            record(tx, component, step).await?;
        }
        Ok(missing.len())
    })
    .await
}

/// The SQL of the missing steps, one script for each, for printing. Changes nothing.
///
/// A script records its step like [`migrate`], in the table of [`migrations_table`], so running the scripts by hand has
/// the same effect as [`migrate`].
pub async fn pending(db: &Db, component: &'static str, steps: &'static [Step]) -> Result<Vec<String>, MigrateError> {
    let none_applied = crate::schema::describe(db, "gatewright_migrations").await?.is_none();
    let missing =
        if none_applied { steps } else { db.read(async move |tx: &Tx| missing(tx, component, steps).await).await? };
    Ok(missing.iter().map(|step| script(component, step, db.engine())).collect())
}

/// The SQL that creates the table of recorded steps, if it is missing.
pub fn migrations_table(engine: Engine) -> String {
    column_types(TABLE, engine)
}

/// A step, and the statement that remembers it.
pub(crate) fn script(component: &str, step: &Step, engine: Engine) -> String {
    let sql = column_types(step.sql, engine);
    format!("{};\n{}", sql.trim().trim_end_matches(';'), remembering(component, step, engine))
}

/// The statement that remembers a step, with its values in it.
pub(crate) fn remembering(component: &str, step: &Step, engine: Engine) -> String {
    let text = |value: &str| format!("'{}'", value.replace('\'', "''"));
    format!(
        "INSERT INTO gatewright_migrations (component, version, name, checksum, applied_at) VALUES ({}, {}, {}, {}, {})",
        text(component),
        step.version,
        text(step.name),
        text(&checksum(step)),
        dialect::now(engine)
    )
}

/// Makes the table that remembers steps.
pub(crate) async fn ready(tx: &Tx) -> Result<(), Error> {
    tx.execute_script(&migrations_table(tx.engine())).await
}

/// Remembers that a step was applied.
pub(crate) async fn record(tx: &Tx, component: &str, step: &Step) -> Result<(), Error> {
    let sql = format!(
        "INSERT INTO gatewright_migrations (component, version, name, checksum, applied_at)
         VALUES (?1, ?2, ?3, ?4, {})",
        dialect::now(tx.engine())
    );
    tx.execute(sql, params![component, step.version, step.name, checksum(step)]).await.map(|_| ())
}

/// Whether no step of a component was ever applied here.
pub(crate) async fn unapplied(tx: &Tx, component: &str) -> Result<bool, Error> {
    if crate::schema::describe_in(tx, "gatewright_migrations").await?.is_none() {
        return Ok(true);
    }
    let sql = "SELECT version FROM gatewright_migrations WHERE component = ?1";
    Ok(tx.query(sql, params![component]).await?.is_empty())
}

/// Compares the applied steps with the known ones. Returns the steps after the last applied one.
async fn missing(tx: &Tx, component: &str, steps: &'static [Step]) -> Result<&'static [Step], MigrateError> {
    let applied = tx
        .query(
            "SELECT version, name, checksum FROM gatewright_migrations WHERE component = ?1 ORDER BY version",
            params![component],
        )
        .await?;
    if applied.len() > steps.len() {
        return Err(MigrateError::Newer { component: component.to_owned(), found: applied.len(), known: steps.len() });
    }
    for (row, step) in applied.iter().zip(steps) {
        if row.get::<i64>("version")? != step.version || row.get::<String>("checksum")? != checksum(step) {
            let name = row.get("name")?;
            return Err(MigrateError::Changed { component: component.to_owned(), version: step.version, name });
        }
    }
    Ok(&steps[applied.len()..])
}

fn checksum(step: &Step) -> String {
    let digest = Sha256::digest(column_types(step.sql, Engine::Postgres));
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}
