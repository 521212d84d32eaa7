//! Marks: the records that another program wrote without what this server derives from them, a number of a sequence, a folded
//! text or the words of an index. A server of an older version or configuration does that beside a new one during an upgrade. Triggers of the database
//! set the marks, and [`Entities::complete_marked`](crate::Entities::complete_marked) takes them away.

use std::fmt::Write;

use gatewright_db::schema::TableShape;
use gatewright_db::{Engine, column_types, dialect};
use sha2::{Digest, Sha256};

use crate::declare::Model;
use crate::declare::model::folded_column;
use crate::fragment::quoted;
use crate::search::index::MARKED;

/// The marked records: table, derived field and id, and whether the record was there before and has an old value.
pub(crate) const TABLE: &str = "gatewright_marks";

/// How the names of the triggers begin.
const TRIGGER: &str = "gatewright_marks.";

const FUNCTION: &str = "CREATE OR REPLACE FUNCTION gatewright_mark() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN \
    INSERT INTO gatewright_marks (table_name, field, id, is_changed) VALUES (TG_ARGV[0], TG_ARGV[1], NEW.id, TG_OP = 'UPDATE') ON CONFLICT DO NOTHING; \
    RETURN NULL; END $body$";

/// A trigger as it should be.
#[derive(Debug)]
pub(super) struct Trigger {
    /// Tells what it does: another condition has another name.
    name: String,
    sql: String,
    /// Whether an index of words misses writes without it.
    feeds: bool,
}

/// The statements that create the table and what its triggers call.
pub(super) fn create_table(engine: Engine) -> Vec<String> {
    let sql = "CREATE TABLE gatewright_marks (table_name {text} NOT NULL, field {text} NOT NULL, id {text} NOT NULL, \
               is_changed {bool} NOT NULL, PRIMARY KEY (table_name, field, id))";
    let function = (engine == Engine::Postgres).then(|| FUNCTION.to_owned());
    std::iter::once(column_types(sql, engine)).chain(function).collect()
}

/// The triggers of an entity's table.
pub(super) fn triggers(model: &Model, engine: Engine) -> Vec<Trigger> {
    let mut triggers = Vec::new();
    let name = |index: usize| &*model.fields[index].name;
    for index in model.folded() {
        let (field, folded) = (quoted(name(index)), quoted(&folded_column(name(index))));
        let missing = format!("NEW.{field} IS NOT NULL AND NEW.{folded} IS NULL");
        triggers.push(trigger(model, name(index), None, &missing, engine));
        let of = [name(index)];
        triggers.push(trigger(
            model,
            name(index),
            Some(&of),
            &format!("{} AND {}", differs(&field), same(&folded)),
            engine,
        ));
    }
    for sequence in &model.sequences {
        let number = quoted(name(sequence.field));
        triggers.push(trigger(model, name(sequence.field), None, &format!("NEW.{number} IS NULL"), engine));
        let scope: Vec<&str> = sequence.scope.iter().map(|index| name(*index)).collect();
        if !scope.is_empty() {
            let moved = scope.iter().map(|column| differs(&quoted(column))).collect::<Vec<_>>().join(" OR ");
            let moved = format!("({moved}) AND {}", same(&number));
            triggers.push(trigger(model, name(sequence.field), Some(&scope), &moved, engine));
        }
    }
    if let Some(search) = &model.search {
        let texts = search.fields.iter().map(|(position, _)| name(*position));
        let pairs: Vec<_> = texts.clone().map(|text| (quoted(text), quoted(&search.column(text)))).collect();
        let missing: Vec<_> = pairs.iter().map(|(_, words)| format!("NEW.{words} IS NULL")).collect();
        triggers.push(trigger(model, MARKED, None, &missing.join(" OR "), engine));
        let stale = pairs.iter().map(|(text, words)| format!("({} AND {})", differs(text), same(words)));
        let (stale, texts) = (stale.collect::<Vec<_>>().join(" OR "), texts.collect::<Vec<_>>());
        triggers.push(trigger(model, MARKED, Some(&texts), &stale, engine));
    }
    triggers
}

fn differs(column: &str) -> String {
    format!("NEW.{column} IS DISTINCT FROM OLD.{column}")
}

fn same(column: &str) -> String {
    format!("NEW.{column} IS NOT DISTINCT FROM OLD.{column}")
}

/// Marks new records or, with `of`, those in which one of these columns changes.
fn trigger(model: &Model, field: &str, of: Option<&[&str]>, condition: &str, engine: Engine) -> Trigger {
    let (table, text) = (quoted(&model.table), |text: &str| format!("'{}'", text.replace('\'', "''")));
    let is_of_words = field == MARKED;
    let (named, field) = (text(&model.table), text(field));
    let event = match of {
        None => "INSERT".to_owned(),
        Some(columns) => {
            format!("UPDATE OF {}", columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", "))
        }
    };
    let is_changed = if of.is_some() { "TRUE" } else { "FALSE" };
    let does = match engine {
        Engine::Sqlite => format!(
            "WHEN {condition} BEGIN INSERT INTO {TABLE} (table_name, field, id, is_changed) SELECT {named}, {field}, NEW.\"id\", {is_changed} \
             WHERE NOT EXISTS (SELECT 1 FROM {TABLE} WHERE table_name = {named} AND field = {field} AND id = NEW.\"id\"); END"
        ),
        Engine::Postgres => {
            format!("FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION gatewright_mark({named}, {field})")
        }
    };
    Trigger { feeds: is_of_words, ..Trigger::new(&format!("AFTER {event} ON {table} {does}")) }
}

impl Trigger {
    /// One that brings the words of a record into an index.
    pub(super) fn feeding(rest: &str) -> Self {
        Self { feeds: true, ..Self::new(rest) }
    }

    /// `rest`: what follows the name in its statement.
    pub(super) fn new(rest: &str) -> Self {
        let mut name = TRIGGER.to_owned();
        for byte in &Sha256::digest(rest)[..8] {
            let _infallible = write!(name, "{byte:02x}");
        }
        Self { sql: format!("CREATE TRIGGER {} {rest}", quoted(&name)), name, feeds: false }
    }

    pub(super) fn feeds(&self) -> bool {
        self.feeds
    }

    pub(super) fn is_among(&self, names: &[String]) -> bool {
        names.contains(&self.name)
    }
}

/// The statements that create those that a table lacks. `shape`: the table, if it is there.
pub(super) fn create(triggers: &[Trigger], shape: Option<&TableShape>) -> Vec<String> {
    let missing = triggers.iter().filter(|trigger| shape.is_none_or(|shape| !trigger.is_among(&shape.triggers)));
    missing.map(|trigger| trigger.sql.clone()).collect()
}

/// The statements that mark the records whose folded text is not that of their text: without a trigger, nothing marked them.
pub(super) fn mark_unfolded(model: &Model, shape: &TableShape) -> Vec<String> {
    let folded = model.folded().map(|index| &*model.fields[index].name);
    let there = folded.filter(|name| shape.column(&folded_column(name)).is_some());
    let mark = |name: &str| {
        let (table, stored, wanted) =
            (quoted(&model.table), quoted(&folded_column(name)), dialect::folded(&quoted(name)));
        format!(
            "INSERT INTO {TABLE} (table_name, field, id, is_changed) SELECT '{}', '{}', \"id\", FALSE FROM {table} \
             WHERE {stored} IS DISTINCT FROM {wanted} ON CONFLICT DO NOTHING",
            model.table.replace('\'', "''"),
            name.replace('\'', "''"),
        )
    };
    there.map(mark).collect()
}

/// The statements that drop those that a table no longer needs.
pub(super) fn drop_left_over(triggers: &[Trigger], table: &str, shape: &TableShape, engine: Engine) -> Vec<String> {
    let wanted = |name: &String| triggers.iter().any(|trigger| trigger.name == *name);
    ours(shape).filter(|name| !wanted(name)).map(|name| drop_one(name, table, engine)).collect()
}

/// The statements that drop all of a table's, because they prevent changes of its columns. The next start creates them again.
pub(super) fn drop_all(table: &str, shape: &TableShape, engine: Engine) -> Vec<String> {
    ours(shape).map(|name| drop_one(name, table, engine)).collect()
}

/// Whether a table has triggers of another declaration.
pub(super) fn has_others(wanted: &[Trigger], present: &[String]) -> bool {
    let is_wanted = |name: &String| wanted.iter().any(|trigger| trigger.name == *name);
    present.iter().any(|name| name.starts_with(TRIGGER) && !is_wanted(name))
}

fn ours(shape: &TableShape) -> impl Iterator<Item = &String> {
    shape.triggers.iter().filter(|name| name.starts_with(TRIGGER))
}

fn drop_one(name: &str, table: &str, engine: Engine) -> String {
    match engine {
        Engine::Sqlite => format!("DROP TRIGGER {}", quoted(name)),
        Engine::Postgres => format!("DROP TRIGGER {} ON {}", quoted(name), quoted(table)),
    }
}
