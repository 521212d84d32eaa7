use std::borrow::Cow;
use std::fmt::Write;

use gatewright_db::{Engine, Sql, Value, dialect};
use gatewright_events::logged_insert;

use super::{Scope, Step};
use crate::access::Reach;
use crate::condition::bound::Form;
use crate::declare::{Kind, Model};
use crate::filter::{Columns, Predicate};
use crate::fragment::quoted;

/// A statement about one record, whose parameters are its id and those of a [`Reach`].
#[derive(Debug)]
pub(crate) struct One {
    table: String,
    /// Any owner's, within the tenant on multi-tenant entities.
    wide: Bounded,
    /// That of one owner.
    own: Option<Bounded>,
}

#[derive(Debug)]
struct Bounded {
    sql: Sql,
    /// The statement up to the end of its conditions, and the rest.
    head: String,
    tail: String,
    params: usize,
}

impl One {
    /// The form for callers who reach every owner's records, or for those who reach their own.
    pub(crate) fn within(&self, reach: &Reach) -> Sql {
        let form = match (reach.owner(), &self.own) {
            (Some(_), Some(own)) => own,
            _ => &self.wide,
        };
        if reach.conditions().is_empty() {
            return form.sql.clone();
        }
        let rules = reach.rules_sql(&self.table, form.params + 1, Form::Single);
        format!("{}{rules}{}", form.head, form.tail).into()
    }
}

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
    columns: String,
    owner: Option<String>,
    tenant: Option<String>,
    soft_delete: bool,
    /// The bytes of a row's fields, as an expression.
    size: String,
    /// Parameters: id, and those of the reach.
    pub(crate) get: One,
    /// Like [`get`](Self::get), but locks the row for the transaction.
    pub(crate) lock: One,
    /// Parameters like [`get`](Self::get); returns the row as it last was.
    pub(crate) delete: One,
    /// Parameters: id, every field in its order, `created_at`, `updated_at`.
    pub(crate) insert: Sql,
    /// The same but returns nothing, for an engine that stores the values unchanged.
    pub(crate) insert_blindly: Option<Sql>,
    /// The same, which also appends the event to the log, where that is one statement.
    pub(crate) insert_logged: Option<Sql>,
}

impl Statements {
    pub(crate) fn new(model: &Model, columns: &str, engine: Engine) -> Self {
        let table = quoted(&model.table);
        let owner = model.owner_column().map(quoted);
        let tenant = model.tenant_column().map(quoted);
        let live = live(model.soft_delete);
        let has_json = model.fields.iter().any(|field| field.kind == Kind::Json);
        let one = |before: &str, after: &str| {
            let text = |columns: &[&Option<String>]| {
                let mut head = format!("{before} WHERE \"id\" = ?1");
                let mut params = 1;
                for column in columns.iter().filter_map(|column| column.as_ref()) {
                    params += 1;
                    let _infallible = write!(head, " AND {column} = ?{params}");
                }
                head.push_str(live);
                Bounded { sql: format!("{head}{after}").into(), head, tail: after.to_owned(), params }
            };
            let own = owner.is_some().then(|| text(&[&tenant, &owner]));
            One { table: table.clone(), wide: text(&[&tenant]), own }
        };
        let select = format!("SELECT {columns} FROM {table}");
        let blindly: Option<Sql> = dialect::keeps_as_given(engine, has_json).then(|| insert(model, &table).into());
        // The id and the two times, in addition to the fields.
        let params = model.fields.len() + 3;
        Self {
            get: one(&select, ""),
            lock: one(&select, dialect::for_update(engine)),
            delete: one(&format!("DELETE FROM {table}"), &format!(" RETURNING {columns}")),
            insert: format!("{} RETURNING {columns}", insert(model, &table)).into(),
            insert_logged: blindly.as_ref().and_then(|insert| logged_insert(engine, insert, params)),
            insert_blindly: blindly,
            columns: columns.to_owned(),
            size: size(model, engine),
            table,
            owner,
            tenant,
            soft_delete: model.soft_delete,
        }
    }

    /// Parameters: a value for each of `set`, id, and those of `reach`.
    pub(crate) fn update<'a>(&self, set: impl Iterator<Item = &'a str>, reach: &Reach) -> Sql {
        let mut sql = format!("UPDATE {} SET ", self.table);
        let mut number = 0;
        for column in set {
            number += 1;
            let comma = if number == 1 { "" } else { ", " };
            let _infallible = write!(sql, "{comma}\"{column}\" = ?{number}");
        }
        let _infallible = write!(sql, " WHERE \"id\" = ?{}", number + 1);
        for (index, column) in self.bounds(reach).enumerate() {
            let _infallible = write!(sql, " AND {column} = ?{}", number + 2 + index);
        }
        sql.push_str(&reach.rules_sql(&self.table, number + 2 + self.bounds(reach).count(), Form::Single));
        let _infallible = write!(sql, "{} RETURNING {}", live(self.soft_delete), self.columns);
        sql.into()
    }

    /// Marks a record as deleted. Parameters: the time, id, and those of `reach`.
    pub(crate) fn trash(&self, reach: &Reach) -> Sql {
        self.mark("?1", "NULL", reach)
    }

    /// Takes a record out of the trash. Parameters like [`trash`](Self::trash).
    pub(crate) fn restore(&self, reach: &Reach) -> Sql {
        self.mark("NULL", "NOT NULL", reach)
    }

    fn mark(&self, deleted_at: &str, before: &str, reach: &Reach) -> Sql {
        let mut sql = format!(
            "UPDATE {} SET \"deleted_at\" = {deleted_at}, \"updated_at\" = ?1 WHERE \"id\" = ?2 AND \"deleted_at\" IS {before}",
            self.table
        );
        for (index, column) in self.bounds(reach).enumerate() {
            let _infallible = write!(sql, " AND {column} = ?{}", index + 3);
        }
        sql.push_str(&reach.rules_sql(&self.table, 3 + self.bounds(reach).count(), Form::Single));
        let _infallible = write!(sql, " RETURNING {}", self.columns);
        sql.into()
    }

    /// Whether a record exists within a reach, in the trash or not. Parameters: id, and those of `reach`.
    pub(crate) fn trashed_or_live(&self, reach: &Reach) -> Sql {
        let mut sql = format!("SELECT 1 AS found FROM {} WHERE \"id\" = ?1", self.table);
        for (index, column) in self.bounds(reach).enumerate() {
            let _infallible = write!(sql, " AND {column} = ?{}", index + 2);
        }
        sql.push_str(&reach.rules_sql(&self.table, 2 + self.bounds(reach).count(), Form::Single));
        sql.into()
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
        format!(
            "SELECT {select} FROM {rows}{condition}{word}{range} ORDER BY {order} LIMIT ?{limit} OFFSET ?{}",
            limit + 1
        )
        .into()
    }

    /// The FROM clause of the rows of `scope`, and the remaining condition.
    fn rows<'a>(&'a self, scope: &'a Scope) -> (Cow<'a, str>, &'a str) {
        let (table, condition) = (&self.table, &scope.condition);
        match &scope.beside {
            None => (Cow::Borrowed(table), condition),
            Some((columns, _)) => {
                (Cow::Owned(format!("(SELECT {table}.*, {columns} FROM {table}{condition}) AS {table}")), "")
            }
        }
    }

    /// The rows of `scope` whose id is in a JSON array, which is the parameter with the number `ids`.
    pub(crate) fn among(&self, scope: &Scope, ids: usize, engine: Engine) -> Sql {
        let (columns, table, condition) = (&self.columns, &self.table, &scope.condition);
        let word = if condition.is_empty() { " WHERE" } else { " AND" };
        let among = dialect::is_among(engine, "\"id\"", &format!("?{ids}"));
        format!("SELECT {columns} FROM {table}{condition}{word} {among}").into()
    }

    /// Parameters: those of `scope`.
    pub(crate) fn count(&self, scope: &Scope) -> Sql {
        format!("SELECT COUNT(*) FROM {}{}", self.table, scope.condition).into()
    }

    /// The number of rows in `scope`, counted to a limit. Parameters: those of `scope`, then the limit.
    pub(crate) fn count_some(&self, scope: &Scope, engine: Engine) -> Sql {
        let (table, condition) = (&self.table, &scope.condition);
        dialect::count_to(engine, &format!("SELECT 1 FROM {table}{condition}"), scope.next()).into()
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
        let (size, table, column, ids) = (&self.size, &self.table, quoted(column), list(1, count));
        format!("SELECT \"id\", {size} AS size FROM {table} WHERE {column} IN ({ids}) LIMIT {most}{lock}").into()
    }

    /// The ids and sizes of at most `most` rows whose `column` is the first parameter, after the id of the second, in order.
    pub(crate) fn owned(&self, column: &str, most: usize) -> Sql {
        let (size, table, column) = (&self.size, &self.table, quoted(column));
        format!(
            "SELECT \"id\", {size} AS size FROM {table} WHERE {column} = ?1 AND \"id\" > ?2 ORDER BY \"id\" LIMIT {most}"
        )
        .into()
    }

    /// The rows whose id is one of `count` parameters, locked as `lock` says.
    pub(crate) fn with_ids(&self, count: usize, lock: &str) -> Sql {
        format!("SELECT {} FROM {} WHERE \"id\" IN ({}){lock}", self.columns, self.table, list(1, count)).into()
    }

    /// Deletes the rows whose id is one of `count` parameters.
    pub(crate) fn remove(&self, count: usize) -> Sql {
        format!("DELETE FROM {} WHERE \"id\" IN ({})", self.table, list(1, count)).into()
    }

    /// Sets `column` to null in the rows whose id is one of `count` parameters, after `updated_at` as the first.
    pub(crate) fn empty(&self, column: &str, count: usize) -> Sql {
        let (table, column, ids) = (&self.table, quoted(column), list(2, count));
        let returning = &self.columns;
        format!("UPDATE {table} SET {column} = NULL, \"updated_at\" = ?1 WHERE \"id\" IN ({ids}) RETURNING {returning}")
            .into()
    }

    /// Whether a record with the id of the first parameter exists: anywhere, or within a reach, whose parameters follow.
    pub(crate) fn exists(&self, reach: Option<&Reach>) -> Sql {
        let mut sql = format!("SELECT 1 AS found FROM {} WHERE \"id\" = ?1", self.table);
        for (index, column) in reach.into_iter().flat_map(|reach| self.bounds(reach)).enumerate() {
            let _infallible = write!(sql, " AND {column} = ?{}", index + 2);
        }
        if let Some(reach) = reach {
            sql.push_str(&reach.rules_sql(&self.table, 2 + self.bounds(reach).count(), Form::Single));
        }
        sql.push_str(live(self.soft_delete));
        sql.into()
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
        let mut scope = Scope { condition: String::new(), params: reach.bounding(), beside: None };
        for (index, column) in self.bounds(reach).enumerate() {
            scope.and(&format!("{column} = ?{}", index + 1), Vec::new());
        }
        match trashed {
            Trashed::Without if self.soft_delete => scope.and("\"deleted_at\" IS NULL", Vec::new()),
            Trashed::Only => scope.and("\"deleted_at\" IS NOT NULL", Vec::new()),
            Trashed::Without | Trashed::With => {}
        }
        scope
    }

    /// The columns that a reach bounds, in the order of its parameters.
    fn bounds(&self, reach: &Reach) -> impl Iterator<Item = &str> {
        let tenant = reach.tenant().and(self.tenant.as_deref());
        let owner = reach.owner().and(self.owner.as_deref());
        tenant.into_iter().chain(owner)
    }
}

/// The condition that excludes records in the trash.
fn live(soft_delete: bool) -> &'static str {
    if soft_delete { " AND \"deleted_at\" IS NULL" } else { "" }
}

fn insert(model: &Model, table: &str) -> String {
    let fields = model.fields.iter().map(|field| &*field.name);
    let columns: Vec<String> =
        std::iter::once("id").chain(fields).chain(["created_at", "updated_at"]).map(quoted).collect();
    let (names, values) = (columns.join(", "), list(1, columns.len()));
    format!("INSERT INTO {table} ({names}) VALUES ({values})")
}

fn size(model: &Model, engine: Engine) -> String {
    let lengths = model.fields.iter().map(|field| {
        let length = dialect::byte_length(engine, &quoted(&field.name));
        format!(" + COALESCE({length}, 0)")
    });
    // The id and the times come on top.
    format!("CAST(100{} AS BIGINT)", lengths.collect::<String>())
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
