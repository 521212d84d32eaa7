//! The tables of indexes of words, and the triggers that feed them.
//!
//! On Postgres the column of words has a GIN index. On SQLite triggers bring the words into an FTS5 table, in the transaction of the
//! write. An index is built in batches by [`build_search`]; what has been done is in the table `gatewright_search`.

use std::sync::Arc;

use gatewright_db::schema::{TableShape, describe_in};
use gatewright_db::{Db, Engine, Error, Tx, column_types};

use super::SchemaError;
use super::marks::{self, Trigger};
use super::table;
use crate::Declarations;
use crate::declare::Model;
use crate::fragment::quoted;
use crate::search::build;
use crate::search::index::{Index, TABLE, content_of, ids_of, name_of};

/// The indexes that the database has.
#[derive(Debug, Default)]
pub(super) struct Present(Vec<Found>);

#[derive(Debug)]
struct Found {
    table: String,
    definition: String,
    is_built: bool,
}

/// Builds the declared indexes as far as they are not built, and returns when they have all records. A server may run beside.
pub async fn build_search(db: &Db, declarations: &Declarations) -> Result<(), SchemaError> {
    for model in &declarations.models {
        if let Some(index) = Index::of(model, db.engine()).map(Arc::new)
            && !index.is_built(db).await?
        {
            build::build(db, &index).await?;
        }
    }
    Ok(())
}

/// A table that lacks a declared trigger or its declared search index.
pub(crate) struct Dropped {
    pub(crate) table: Arc<str>,
    /// Whether its search index misses writes.
    pub(crate) is_unfed: bool,
    /// Whether it has triggers or an index of another declaration: another server is in charge.
    pub(crate) is_foreign: bool,
}

/// The tables that lack something that is declared.
pub(crate) async fn dropped(db: &Db, declarations: &Declarations) -> Result<Vec<Dropped>, Error> {
    let mut dropped = Vec::new();
    for model in &declarations.models {
        let wanted = table::triggers(model, db.engine());
        if wanted.is_empty() {
            continue;
        }
        let present = gatewright_db::schema::triggers(db, &model.table).await?;
        let missing = |trigger: &&Trigger| !trigger.is_among(&present);
        let mut is_unfed = wanted.iter().filter(missing).any(Trigger::feeds);
        let mut is_foreign = marks::has_others(&wanted, &present);
        if let Some(index) = Index::of(model, db.engine()) {
            is_unfed |= !index.is_there(db).await?;
            is_foreign |= index.has_others(db).await?;
        }
        if is_unfed || wanted.iter().any(|trigger| missing(&trigger)) {
            dropped.push(Dropped { table: model.table.clone(), is_unfed, is_foreign });
        }
    }
    Ok(dropped)
}

impl Present {
    /// Reads them; creates their table if the declarations need it.
    pub(super) async fn load(tx: &Tx, models: &[Model], statements: &mut Vec<String>) -> Result<Self, Error> {
        if describe_in(tx, TABLE).await?.is_none() {
            if models.iter().any(|model| model.search.is_some()) {
                let sql = format!(
                    "CREATE TABLE {TABLE} (table_name {{text}} PRIMARY KEY, definition {{text}} NOT NULL, last_id {{text}} NOT NULL, \
                     is_built {{bool}} NOT NULL)"
                );
                statements.push(column_types(&sql, tx.engine()));
            }
            return Ok(Self::default());
        }
        let rows = tx.query(format!("SELECT table_name, definition, is_built FROM {TABLE}"), vec![]).await?;
        let found = rows.iter().map(|row| {
            let (table, definition) = (row.get("table_name")?, row.get("definition")?);
            Ok(Found { table, definition, is_built: row.get("is_built")? })
        });
        found.collect::<Result<_, _>>().map(Self)
    }

    /// The statements that make an entity's index what is declared: to run before its triggers are made, and after. `before` is the
    /// former name of its table, if that is renamed now; `shape` the table, if it is there.
    pub(super) fn changes(
        &self,
        model: &Model,
        before: Option<&str>,
        shape: Option<&TableShape>,
        triggers: &[Trigger],
        engine: Engine,
    ) -> Changed {
        let index = Index::of(model, engine);
        let of_table = |found: &&Found| found.table == *model.table || Some(found.table.as_str()) == before;
        let (mut dropped, mut created) = (Vec::new(), Vec::new());
        let (mut is_there, mut is_built) = (false, true);
        for Found { table, definition, is_built: is_ready } in self.0.iter().filter(of_table) {
            let is_same = index.as_ref().is_some_and(|index| index.definition == *definition);
            // Without one of its triggers, it missed writes.
            let is_fed = shape.is_some_and(|shape| {
                triggers.iter().all(|trigger| !trigger.feeds() || trigger.is_among(&shape.triggers))
            });
            if is_same && is_fed {
                (is_there, is_built) = (true, *is_ready);
                continue;
            }
            if engine == Engine::Sqlite {
                dropped.push(format!("DROP TABLE IF EXISTS {}", quoted(&name_of(definition))));
                dropped.push(format!("DROP VIEW IF EXISTS {}", quoted(&content_of(definition))));
                dropped.push(format!("DROP TABLE IF EXISTS {}", quoted(&ids_of(definition))));
            }
            dropped.push(format!("DELETE FROM {TABLE} WHERE table_name = '{table}'"));
        }
        if let Some(index) = index.filter(|_| !is_there) {
            if engine == Engine::Sqlite {
                created.extend(fts5(&index));
            }
            created.push(format!(
                "INSERT INTO {TABLE} (table_name, definition, last_id, is_built) VALUES ('{}', '{}', '', \
                 NOT EXISTS (SELECT 1 FROM {}))",
                model.table,
                index.definition,
                quoted(&model.table)
            ));
        }
        Changed { dropped, created, is_built }
    }
}

/// What [`Present::changes`] asks for.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) dropped: Vec<String>,
    pub(super) created: Vec<String>,
    /// Whether an index that is there has all records.
    pub(super) is_built: bool,
}

/// An FTS5 table that reads the words where they are, and the table that numbers records for it.
fn fts5(index: &Index) -> [String; 3] {
    let [name, ids, content] = [name_of, ids_of, content_of].map(|name| name(&index.definition));
    let columns = (0..index.fields.len()).map(|place| format!("c{place}")).collect::<Vec<_>>().join(", ");
    let words = index.columns().enumerate().map(|(place, column)| format!("t.{} AS c{place}", quoted(column)));
    [
        format!("CREATE TABLE {} (\"docid\" INTEGER PRIMARY KEY, \"id\" TEXT NOT NULL UNIQUE)", quoted(&ids)),
        format!(
            "CREATE VIEW {} AS SELECT i.\"docid\" AS \"docid\", {} FROM {} AS i JOIN {} AS t ON t.\"id\" = i.\"id\"",
            quoted(&content),
            words.collect::<Vec<_>>().join(", "),
            quoted(&ids),
            index.quoted_table()
        ),
        format!(
            "CREATE VIRTUAL TABLE {} USING fts5({columns}, content='{content}', content_rowid='docid', columnsize=0, tokenize='ascii')",
            quoted(&name)
        ),
    ]
}

/// The triggers by which the words of a record reach the FTS5 table.
pub(super) fn triggers(model: &Model, engine: Engine) -> Vec<Trigger> {
    let Some(index) = Index::of(model, engine).filter(|_| engine == Engine::Sqlite) else { return Vec::new() };
    let (table, name, ids) = (index.quoted_table(), quoted(&index.name()), quoted(&index.ids()));
    let columns: Vec<_> = (0..index.fields.len()).map(|place| format!("c{place}")).collect();
    let columns = columns.join(", ");
    let of = |row: &str| index.columns().map(|column| format!("{row}.{}", quoted(column))).collect::<Vec<_>>();
    let (new, old) = (of("NEW"), of("OLD"));
    let taken = format!(
        "INSERT INTO {name} ({name}, rowid, {columns}) SELECT 'delete', \"docid\", {} FROM {ids} WHERE \"id\" = OLD.\"id\"",
        old.join(", ")
    );
    let given = format!(
        "INSERT INTO {name} (rowid, {columns}) SELECT \"docid\", {} FROM {ids} WHERE \"id\" = NEW.\"id\"",
        new.join(", ")
    );
    let differs: Vec<_> = new.iter().zip(&old).map(|(new, old)| format!("{new} IS NOT {old}")).collect();
    let set: Vec<_> = index.columns().map(quoted).collect();
    let numbered = format!("EXISTS (SELECT 1 FROM {ids} WHERE \"id\" = NEW.\"id\")");
    [
        format!(
            "AFTER INSERT ON {table} WHEN {} IS NOT NULL BEGIN INSERT INTO {ids} (\"id\") VALUES (NEW.\"id\"); {given}; END",
            new[0]
        ),
        format!(
            "AFTER UPDATE OF {} ON {table} WHEN {} OR NOT {numbered} BEGIN {taken}; \
             INSERT INTO {ids} (\"id\") SELECT NEW.\"id\" WHERE NOT {numbered}; {given}; END",
            set.join(", "),
            differs.join(" OR ")
        ),
        format!("AFTER DELETE ON {table} BEGIN {taken}; DELETE FROM {ids} WHERE \"id\" = OLD.\"id\"; END"),
    ]
    .into_iter()
    .map(|rest| Trigger::feeding(&rest))
    .collect()
}
