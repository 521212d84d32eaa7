use std::borrow::Cow;
use std::fmt::Write;

use gatewright_db::{Engine, Sql, Value, dialect};
use gatewright_events::{logged_insert, numbered_insert};
use jiff::Timestamp;

use super::one::{Bounds, One, Statement, Text};
use super::{Scope, Step};
use crate::access::Reach;
use crate::condition::bound::Form;
use crate::condition::{LINK, LINKING};
use crate::declare::model::folded_column;
use crate::declare::{Kind, Model, ModelField};
use crate::filter::{Columns, Predicate};
use crate::fragment::{quoted, typed};
use crate::schema::{sequences, type_word};
use crate::search;
use crate::value::Type;
use crate::value::types::STRING_LENGTH;

/// Whether records that were deleted and kept aside count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Trashed {
    /// They do not.
    #[default]
    Without,
    /// They count, in addition to the others.
    With,
    /// Only they count.
    Only,
}

/// The SQL text of an entity's operations.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(super) table: String,
    /// The rows under the name of the table, for FROM.
    pub(super) from: String,
    columns: String,
    bounds: Bounds,
    soft_delete: bool,
    /// The columns whose folded text is stored too.
    folded: Vec<String>,
    /// The columns of words, each with that of its text and the text's position.
    words: Option<search::Index>,
    /// The bytes of a row's fields, as an expression.
    row_size: String,
    /// Whether a record may have more than a few kilobytes.
    pub(crate) may_be_large: bool,
    /// The bytes of the record with the id of the first parameter.
    pub(crate) size: Sql,
    /// Selects a record.
    pub(crate) get: One,
    /// Like [`get`](Self::get), but locks the row for the transaction.
    pub(crate) lock: One,
    /// Deletes a record, and returns the row as it last was.
    pub(crate) delete: One,
    /// Parameters: id, every field in its order, `created_at`, `updated_at`.
    pub(crate) insert: Sql,
    /// The same but returns nothing, for an engine that stores the values unchanged.
    pub(crate) insert_blindly: Option<Sql>,
    /// The same, which also appends the event to the log, where that is one statement.
    pub(crate) insert_logged: Option<Sql>,
    /// The same with the number of the only sequence, which the statement gives. Without the parameter of that field.
    pub(crate) insert_numbered: Option<Sql>,
}

impl Statements {
    pub(crate) fn new(model: &Model, columns: &str, engine: Engine) -> Self {
        let (table, from) = (quoted(&model.table), model.from(engine));
        let bounds = Bounds::new(model);
        let has_json = model.fields.iter().any(|field| matches!(field.kind, Kind::Json | Kind::List | Kind::File));
        let one = |before: &str, after: &str| One::new(&bounds, before, live(model.soft_delete), after);
        // Bytes: of one record, which is counted before a write reads it.
        let select = format!("SELECT {columns} FROM {from}");
        let blindly: Option<Sql> =
            dialect::keeps_as_given(engine, has_json).then(|| insert(model, &table, engine).into());
        let row_size = size(model, engine);
        let words = search::Index::of(model, engine);
        // The id and the two times, in addition to the fields and their words.
        let params = model.fields.len() + 3 + words.as_ref().map_or(0, |words| words.fields.len());
        Self {
            get: one(&select, ""),
            lock: one(&select, dialect::for_update(engine)),
            // Bytes: of one record, which is counted before.
            delete: one(&format!("DELETE FROM {table}"), &format!(" RETURNING {columns}")),
            insert: format!("{} RETURNING {columns}", insert(model, &table, engine)).into(),
            insert_numbered: blindly.as_ref().and_then(|_| numbered(model, engine)),
            insert_logged: blindly.as_ref().and_then(|insert| logged_insert(engine, insert, params)),
            insert_blindly: blindly,
            columns: columns.to_owned(),
            size: format!("SELECT {row_size} AS size FROM {table} WHERE \"id\" = ?1").into(),
            row_size,
            may_be_large: model.fields.iter().any(may_be_large),
            table,
            from,
            bounds,
            soft_delete: model.soft_delete,
            folded: model.folded().map(|index| model.fields[index].name.clone()).collect(),
            words,
        }
    }

    /// The rows under the name of the table, for FROM.
    pub(crate) fn source(&self) -> &str {
        &self.from
    }

    /// The parameters of the INSERT for these values: id, every field, the two times.
    pub(crate) fn inserting(&self, mut row: Vec<Value>) -> Vec<Value> {
        for field in self.words.iter().flat_map(|words| &words.fields) {
            // The id is the first.
            let words = self.words.as_ref().map(|words| words.words_of(&row[field.position + 1]));
            row.extend(words);
        }
        row
    }

    /// Sets columns of a record.
    pub(crate) fn update<'a>(&self, set: impl Iterator<Item = (&'a str, Value)>, id: &str, reach: &Reach) -> Statement {
        let mut text = Text::new(format!("UPDATE {} SET ", self.table));
        for (index, (column, value)) in set.enumerate() {
            let folded = self.folded.iter().any(|folded| folded == column).then(|| value.clone());
            let words = self.words.as_ref().and_then(|words| {
                let field = words.fields.iter().find(|field| field.column == column)?;
                Some((&field.words, words.engine, words.words_of(&value)))
            });
            text.push(if index == 0 { "" } else { ", " }).push(&quoted(column)).push(" = ").bind(value);
            if let Some((column, engine, words)) = words {
                text.push(&format!(", {} = ", quoted(column))).bind_as(words, |words| dialect::words(engine, words));
            }
            if let Some(value) = folded {
                text.push(&format!(", {} = ", quoted(&folded_column(column)))).bind_as(value, dialect::folded);
            }
        }
        text.push(" WHERE \"id\" = ").bind(Value::from(id));
        self.bounds.limit(&mut text, reach);
        // Bytes: of one record, which is counted before.
        text.push(live(self.soft_delete)).push(" RETURNING ").push(&self.columns);
        text.finish()
    }

    /// Marks a record as deleted at a time.
    pub(crate) fn trash(&self, now: Timestamp, id: &str, reach: &Reach) -> Statement {
        self.mark(now, ("?1", "NULL"), id, reach)
    }

    /// Takes a record out of the trash.
    pub(crate) fn restore(&self, now: Timestamp, id: &str, reach: &Reach) -> Statement {
        self.mark(now, ("NULL", "NOT NULL"), id, reach)
    }

    fn mark(&self, now: Timestamp, (deleted_at, before): (&str, &str), id: &str, reach: &Reach) -> Statement {
        let mut text = Text::new(format!("UPDATE {} SET \"updated_at\" = ", self.table));
        text.bind(Value::Time(now)).push(&format!(", \"deleted_at\" = {deleted_at} WHERE \"id\" = "));
        text.bind(Value::from(id)).push(&format!(" AND \"deleted_at\" IS {before}"));
        self.bounds.limit(&mut text, reach);
        // Bytes: of one record, which is counted before.
        text.push(" RETURNING ").push(&self.columns);
        text.finish()
    }

    /// Whether a record exists within a reach, in the trash or not.
    pub(crate) fn trashed_or_live(&self, id: &str, reach: &Reach) -> Statement {
        self.found(id, reach).finish()
    }

    /// Whether a record exists within a reach, outside of the trash.
    pub(crate) fn exists(&self, id: &str, reach: &Reach) -> Statement {
        let mut text = self.found(id, reach);
        text.push(live(self.soft_delete));
        text.finish()
    }

    /// Whether another record has the values of a key: columns, each with whether its folded text counts, and its value or, without
    /// one, that of the record `id`.
    pub(crate) fn taken<'a>(
        &self,
        key: impl Iterator<Item = (&'a str, bool, Option<&'a Value>)>,
        id: Option<&str>,
    ) -> Statement {
        let mut text = Text::new(format!("SELECT 1 AS found FROM {} WHERE ", self.table));
        for (number, (column, folded, value)) in key.enumerate() {
            text.push(if number == 0 { "" } else { " AND " });
            let column = if folded { quoted(&folded_column(column)) } else { quoted(column) };
            text.push(&column).push(" = ");
            match value {
                Some(value) if folded => text.bind_as(value.clone(), dialect::folded),
                Some(value) => text.bind(value.clone()),
                None => text
                    .push(&format!("(SELECT {column} FROM {} WHERE \"id\" = ", self.table))
                    .bind(Value::from(id.unwrap_or_default()))
                    .push(")"),
            };
        }
        if let Some(id) = id {
            text.push(" AND \"id\" <> ").bind(Value::from(id));
        }
        text.push(live(self.soft_delete)).push(" LIMIT 1");
        text.finish()
    }

    /// The ids among these that records within a reach have, outside of the trash.
    pub(crate) fn exist(&self, ids: &[&str], reach: &Reach, engine: Engine) -> Statement {
        let mut text = Text::new(format!("SELECT \"id\" FROM {} WHERE ", self.from));
        let ids = Value::Text(serde_json::json!(ids).to_string());
        text.bind_as(ids, |ids| dialect::is_among(engine, "\"id\"", ids));
        self.bounds.limit(&mut text, reach);
        text.push(live(self.soft_delete));
        text.finish()
    }

    fn found(&self, id: &str, reach: &Reach) -> Text {
        let mut text = Text::new(format!("SELECT 1 AS found FROM {} WHERE \"id\" = ", self.from));
        text.bind(Value::from(id));
        self.bounds.limit(&mut text, reach);
        text
    }

    /// One range of an order. Parameters: those of `scope` and its rows and of `step`, then limit and offset.
    pub(crate) fn step(&self, select: &str, scope: &Scope, step: &Step) -> Sql {
        let ((rows, condition), order) = (self.rows(scope), &step.order);
        let word = match (condition.is_empty(), step.condition.is_empty()) {
            (_, true) => "",
            (true, false) => " WHERE ",
            (false, false) => " AND ",
        };
        let limit = scope.row_params().len() + step.params.len() + 1;
        let range = &step.condition;
        // Bytes: rows are folded one by one until the answer is full.
        format!(
            "SELECT {select} FROM {rows}{condition}{word}{range} ORDER BY {order} LIMIT ?{limit} OFFSET ?{}",
            limit + 1
        )
        .into()
    }

    /// The FROM clause of the rows of `scope`, and the remaining condition.
    fn rows<'a>(&'a self, scope: &'a Scope) -> (Cow<'a, str>, &'a str) {
        let (table, from, condition) = (&self.table, &self.from, &scope.condition);
        match &scope.beside {
            None => (Cow::Borrowed(from), condition),
            // Bytes: a subquery; what is selected of it is bounded outside.
            Some((columns, _)) => {
                (Cow::Owned(format!("(SELECT {table}.*, {columns} FROM {from}{condition}) AS {table}")), "")
            }
        }
    }

    /// The rows of `scope` whose id is in a JSON array, which is the parameter with the number `ids`.
    pub(crate) fn among(&self, scope: &Scope, ids: usize, engine: Engine) -> Sql {
        self.among_selecting(&self.columns, scope, ids, engine)
    }

    /// The same with what `select` names of them.
    pub(crate) fn among_selecting(&self, select: &str, scope: &Scope, ids: usize, engine: Engine) -> Sql {
        let (from, condition) = (&self.from, &scope.condition);
        let word = if condition.is_empty() { " WHERE" } else { " AND" };
        let among = dialect::is_among(engine, "\"id\"", &format!("?{ids}"));
        // Bytes: rows are folded one by one until the answer is full, or only their prints are kept.
        format!("SELECT {select} FROM {from}{condition}{word} {among}").into()
    }

    /// The rows of `scope` for each id of a JSON array, which is the parameter with the number `ids`: those for which `condition` is
    /// true of the id, `"_k"."_v"`, the first in an order, as many as the next parameter says. They have the id as `_v`.
    pub(crate) fn naming(
        &self,
        select: &str,
        scope: &Scope,
        (condition, order): (&str, &str),
        ids: usize,
        engine: Engine,
    ) -> Sql {
        let (table, from, bounds) = (&self.table, &self.from, &scope.condition);
        let word = if bounds.is_empty() { " WHERE" } else { " AND" };
        let most = ids + 1;
        let first = format!("SELECT \"id\" FROM {from}{bounds}{word} {condition} ORDER BY {order} LIMIT ?{most}");
        let each = dialect::for_each(engine, &dialect::texts(engine, &format!("?{ids}")), &first);
        // Bytes: rows are folded one by one until the answer is full.
        format!(
            "SELECT {select} FROM ({each}) AS \"_r\" JOIN {from} ON {table}.\"id\" = \"_r\".\"_id\" ORDER BY {order}"
        )
        .into()
    }

    /// Parameters: those of `scope`.
    pub(crate) fn count(&self, scope: &Scope) -> Sql {
        format!("SELECT COUNT(*) FROM {}{}", self.from, scope.condition).into()
    }

    /// The number of rows in `scope`, counted to a limit. Parameters: those of `scope`, then the limit.
    pub(crate) fn count_some(&self, scope: &Scope, engine: Engine) -> Sql {
        let (from, condition) = (&self.from, &scope.condition);
        dialect::count_to(engine, &format!("SELECT 1 FROM {from}{condition}"), scope.next()).into()
    }

    /// Counts the rows of `scope` in one range of an order, up to a limit.
    pub(crate) fn count_range(&self, scope: &Scope, step: Step, most: i64, engine: Engine) -> (Sql, Vec<Value>) {
        let mut scope = scope.clone();
        if step.condition.is_empty() {
            scope.params.extend(step.params);
        } else {
            scope.and(&step.condition, step.params);
        }
        let sql = self.count_some(&scope, engine);
        scope.params.push(Value::Int(most));
        (sql, scope.params)
    }

    /// Locks the rows of `scope` whose id is in a JSON array, in the order of their ids. Parameters: those of `scope`, then
    /// the array. `None` on an engine with one writer, which locks no rows.
    pub(crate) fn hold(&self, scope: &Scope, engine: Engine) -> Option<Sql> {
        let lock = dialect::for_update(engine);
        let (table, condition) = (&self.table, &scope.condition);
        let word = if condition.is_empty() { " WHERE" } else { " AND" };
        let among = dialect::is_among(engine, "\"id\"", &format!("?{}", scope.params.len() + 1));
        let sql = format!("SELECT \"id\" FROM {table}{condition}{word} {among} ORDER BY \"id\"{lock}");
        (!lock.is_empty()).then(|| sql.into())
    }

    /// The ids and sizes of at most `most` rows whose `column` is one of `count` parameters, locked as `lock` says.
    pub(crate) fn sizes(&self, column: &str, count: usize, most: usize, lock: &str) -> Sql {
        let (size, table, column, ids) = (&self.row_size, &self.table, quoted(column), list(1, count));
        format!("SELECT \"id\", {size} AS size FROM {table} WHERE {column} IN ({ids}) LIMIT {most}{lock}").into()
    }

    /// [`sizes`](Self::sizes) of the rows whose list of links, in a table of that name, has one of `count` parameters.
    pub(crate) fn sizes_of_linking(&self, links: &str, count: usize, most: usize, lock: &str) -> Sql {
        let (size, table, ids) = (&self.row_size, &self.table, list(1, count));
        format!(
            "SELECT \"id\", {size} AS size FROM {table} WHERE \"id\" IN \
             (SELECT {LINKING} FROM {links} WHERE {LINK} IN ({ids})) LIMIT {most}{lock}"
        )
        .into()
    }

    /// Takes ids, those of the JSON array that is the second parameter, out of a list of links in the rows whose id is one of
    /// `count` parameters after it. The first parameter is `updated_at`.
    pub(crate) fn unlink(&self, column: &str, count: usize, engine: Engine) -> Sql {
        let (table, column, ids) = (&self.table, quoted(column), list(3, count));
        let (without, returning) = (dialect::without_elements(engine, &column, "?2"), &self.columns);
        // Bytes: their sizes were read before: those of a piece of a cascade.
        format!(
            "UPDATE {table} SET {column} = {without}, \"updated_at\" = ?1 WHERE \"id\" IN ({ids}) RETURNING {returning}"
        )
        .into()
    }

    /// The ids and sizes of at most `most` rows whose `column` is the first parameter, after the id of the second, in order.
    pub(crate) fn owned(&self, column: &str, most: usize) -> Sql {
        let (size, table, column) = (&self.row_size, &self.table, quoted(column));
        format!(
            "SELECT \"id\", {size} AS size FROM {table} WHERE {column} = ?1 AND \"id\" > ?2 ORDER BY \"id\" LIMIT {most}"
        )
        .into()
    }

    /// The ids and sizes of records that link to the first parameter, after the id in the second.
    pub(crate) fn linking_one(&self, links: &str, most: usize) -> Sql {
        let (size, table, links) = (&self.row_size, &self.table, quoted(links));
        format!(
            "SELECT \"id\", {size} AS size FROM {table} WHERE \"id\" IN (SELECT {LINKING} FROM {links} WHERE {LINK} = ?1) \
             AND \"id\" > ?2 ORDER BY \"id\" LIMIT {most}"
        )
        .into()
    }

    /// The rows whose id is one of `count` parameters, locked as `lock` says.
    pub(crate) fn with_ids(&self, count: usize, lock: &str) -> Sql {
        let (columns, from, ids) = (&self.columns, &self.from, list(1, count));
        // Bytes: their sizes were read before: those of a piece of a cascade, or of a page of an export.
        format!("SELECT {columns} FROM {from} WHERE \"id\" IN ({ids}){lock}").into()
    }

    /// Deletes the rows whose id is one of `count` parameters.
    pub(crate) fn remove(&self, count: usize) -> Sql {
        format!("DELETE FROM {} WHERE \"id\" IN ({})", self.table, list(1, count)).into()
    }

    /// Sets `column` to null in the rows whose id is one of `count` parameters, after `updated_at` as the first.
    pub(crate) fn empty(&self, column: &str, count: usize) -> Sql {
        let (table, column, ids) = (&self.table, quoted(column), list(2, count));
        let returning = &self.columns;
        // Bytes: their sizes were read before: those of a piece of a cascade.
        format!("UPDATE {table} SET {column} = NULL, \"updated_at\" = ?1 WHERE \"id\" IN ({ids}) RETURNING {returning}")
            .into()
    }

    /// Sets `column` of the row whose id is the second parameter to the third, after `updated_at` as the first.
    pub(crate) fn set(&self, column: &str) -> Sql {
        let (table, column, returning) = (&self.table, quoted(column), &self.columns);
        // Bytes: of one record, which is counted before.
        format!("UPDATE {table} SET {column} = ?3, \"updated_at\" = ?1 WHERE \"id\" = ?2 RETURNING {returning}").into()
    }

    /// The rows within `reach` that pass `filter`.
    pub(crate) fn scope(
        &self,
        reach: &Reach,
        trashed: Trashed,
        filter: &Predicate,
        columns: &Columns,
        engine: Engine,
    ) -> Scope {
        let mut scope = self.bounded(reach, trashed);
        scope.judge(&self.table, reach.conditions(), Form::Many);
        scope.filter(filter, columns, engine);
        scope
    }

    /// The rows of the tenant and the owner of `reach`, without its rules.
    pub(crate) fn bounded(&self, reach: &Reach, trashed: Trashed) -> Scope {
        let mut scope = Scope { condition: String::new(), params: Vec::new(), beside: None };
        for (column, value) in self.bounds.of(reach) {
            scope.and(&format!("{column} = ?{}", scope.next()), vec![value]);
        }
        match trashed {
            Trashed::Without if self.soft_delete => scope.and("\"deleted_at\" IS NULL", Vec::new()),
            Trashed::Only => scope.and("\"deleted_at\" IS NOT NULL", Vec::new()),
            Trashed::Without | Trashed::With => {}
        }
        scope
    }
}

/// The condition that excludes records in the trash.
fn live(soft_delete: bool) -> &'static str {
    if soft_delete { " AND \"deleted_at\" IS NULL" } else { "" }
}

fn insert(model: &Model, table: &str, engine: Engine) -> String {
    insert_of(model, table, engine, |number| format!("?{number}"))
}

/// An INSERT of these values: of the id, each field, the two times and the words, by their numbers from 1.
fn insert_of(model: &Model, table: &str, engine: Engine, value: impl Fn(usize) -> String) -> String {
    let fields = model.fields.iter().map(|field| &*field.name);
    let mut columns: Vec<String> =
        std::iter::once("id").chain(fields).chain(["created_at", "updated_at"]).map(quoted).collect();
    let mut values = (1..=columns.len()).map(&value).collect::<Vec<_>>().join(", ");
    for index in model.folded() {
        columns.push(quoted(&folded_column(&model.fields[index].name)));
        // The id is the first parameter.
        let _infallible = write!(values, ", {}", dialect::folded(&value(index + 2)));
    }
    let words = search::Index::of(model, engine);
    for (place, field) in words.iter().flat_map(|words| &words.fields).enumerate() {
        columns.push(quoted(&field.words));
        let _infallible = write!(values, ", {}", dialect::words(engine, &value(model.fields.len() + 4 + place)));
    }
    format!("INSERT INTO {table} ({}) VALUES ({values})", columns.join(", "))
}

/// Gives the number of the only sequence, inserts the record and appends the event.
fn numbered(model: &Model, engine: Engine) -> Option<Sql> {
    let [sequence] = &*model.sequences else { return None };
    // What comes after the number in the INSERT has a place less among the parameters. The id is the first.
    let words = model.search.as_ref().map_or(0, |search| search.fields.len());
    let (number, count) = (sequence.field + 2, model.fields.len() + 2 + words);
    let place = |parameter: usize| if parameter > number { parameter - 1 } else { parameter };
    let scope = sequences::scope(engine, &sequence.columns(model), |name| {
        let field = model.fields.iter().position(|field| field.name == name).unwrap_or_default();
        typed(engine, type_word(model.fields[field].kind), place(field + 2))
    });
    let first = sequences::next(&sequences::name(&model.table, &model.fields[sequence.field].name), &scope);
    let given = format!("(SELECT number FROM {})", quoted(NUMBER));
    let values = |parameter: usize| if parameter == number { given.clone() } else { format!("?{}", place(parameter)) };
    numbered_insert(engine, (NUMBER, &first), &insert_of(model, &quoted(&model.table), engine, values), count)
}

/// The name of the statement that gives a number.
const NUMBER: &str = "_number";

fn size(model: &Model, engine: Engine) -> String {
    let lengths = model.fields.iter().map(|field| {
        let length = dialect::byte_length(engine, &quoted(&field.name));
        format!(" + COALESCE({length}, 0)")
    });
    // The id and the times come on top.
    format!("CAST(100{} AS BIGINT)", lengths.collect::<String>())
}

fn may_be_large(field: &ModelField) -> bool {
    match &field.rule {
        Type::Json | Type::List(_) | Type::File => true,
        Type::Text(text) => text.max.is_none_or(|max| max > STRING_LENGTH),
        _ => false,
    }
}

/// `?1, ?2, …`
fn list(first: usize, count: usize) -> String {
    let mut text = String::with_capacity(count * 5);
    for number in first..first + count {
        let comma = if number == first { "" } else { ", " };
        let _infallible = write!(text, "{comma}?{number}");
    }
    text
}
