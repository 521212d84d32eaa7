use std::fmt::Write;

use gatewright_db::{Engine, Sql, Value, dialect};

use super::{Sort, Step};
use crate::access::Reach;
use crate::declare::Model;
use crate::filter::{self, Columns, Predicate};

/// An identifier in quotes, so that an entity may be called `order`. Names were checked to hold no quotes.
pub(crate) fn quoted(name: &str) -> String {
    debug_assert!(!name.contains('"'), "names are plain words");
    format!("\"{name}\"")
}

/// A statement about one record, whose parameters are its id and those of a [`Reach`].
#[derive(Debug)]
pub(crate) struct One {
    /// Any owner's, within the tenant on multi-tenant entities.
    wide: Sql,
    /// That of one owner.
    own: Option<Sql>,
}

impl One {
    /// The form for callers who reach every owner's records, or for those who reach their own.
    pub(crate) fn within(&self, reach: &Reach) -> Sql {
        match (reach.owner(), &self.own) {
            (Some(_), Some(own)) => own.clone(),
            _ => self.wide.clone(),
        }
    }
}

/// Whether records that were deleted and kept aside count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Trashed {
    /// They do not.
    #[default]
    Without,
    /// They do, beside the others.
    With,
    /// They alone do.
    Only,
}

/// Which rows a list is about: a condition, and the values of its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    condition: String,
    pub(crate) params: Vec<Value>,
}

/// The SQL text of an entity's operations.
#[derive(Debug)]
pub(crate) struct Statements {
    table: String,
    columns: String,
    owner: Option<String>,
    tenant: Option<String>,
    soft_delete: bool,
    /// Parameters: id, and those of the reach.
    pub(crate) get: One,
    /// Like [`get`](Self::get), and holds the row for the transaction.
    pub(crate) lock: One,
    /// Parameters like [`get`](Self::get); returns the row as it last was.
    pub(crate) delete: One,
    /// Parameters: id, every field in its order, `created_at`, `updated_at`.
    pub(crate) insert: Sql,
}

impl Statements {
    pub(crate) fn new(model: &Model, columns: &str, engine: Engine) -> Self {
        let table = quoted(&model.table);
        let owner = model.owner_column().map(quoted);
        let tenant = model.tenant_column().map(quoted);
        let live = live(model.soft_delete);
        let one = |before: &str, after: &str| {
            let text = |columns: &[&Option<String>]| {
                let mut sql = format!("{before} WHERE \"id\" = ?1");
                for (index, column) in columns.iter().filter_map(|column| column.as_ref()).enumerate() {
                    let _infallible = write!(sql, " AND {column} = ?{}", index + 2);
                }
                Sql::from(sql + live + after)
            };
            One { wide: text(&[&tenant]), own: owner.is_some().then(|| text(&[&tenant, &owner])) }
        };
        let select = format!("SELECT {columns} FROM {table}");
        Self {
            get: one(&select, ""),
            lock: one(&select, dialect::for_update(engine)),
            delete: one(&format!("DELETE FROM {table}"), &format!(" RETURNING {columns}")),
            insert: insert(model, &table, columns),
            columns: columns.to_owned(),
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
        let _infallible = write!(sql, " RETURNING {}", self.columns);
        sql.into()
    }

    /// Parameters: those of `scope`, then limit and offset.
    pub(crate) fn list(&self, select: &str, sort: &Sort, scope: &Scope) -> Sql {
        let (table, order, condition) = (&self.table, sort.sql(), &scope.condition);
        let next = scope.params.len() + 1;
        format!("SELECT {select} FROM {table}{condition} ORDER BY {order} LIMIT ?{next} OFFSET ?{}", next + 1).into()
    }

    /// One range of the order that cursors page through. Parameters: those of `scope` and of `step`, then the limit.
    pub(crate) fn step(&self, select: &str, scope: &Scope, step: &Step) -> Sql {
        let (table, order, condition) = (&self.table, &step.order, &scope.condition);
        let word = match (condition.is_empty(), step.condition.is_empty()) {
            (_, true) => "",
            (true, false) => " WHERE ",
            (false, false) => " AND ",
        };
        let last = scope.params.len() + step.params.len() + 1;
        format!("SELECT {select} FROM {table}{condition}{word}{} ORDER BY {order} LIMIT ?{last}", step.condition).into()
    }

    /// The rows of `scope` whose id is in a JSON array. Parameters: those of `scope`, then the array.
    pub(crate) fn among(&self, scope: &Scope, engine: Engine) -> Sql {
        let (columns, table, condition) = (&self.columns, &self.table, &scope.condition);
        let word = if condition.is_empty() { " WHERE" } else { " AND" };
        let among = dialect::is_among(engine, "\"id\"", &format!("?{}", scope.params.len() + 1));
        format!("SELECT {columns} FROM {table}{condition}{word} {among}").into()
    }

    /// Parameters: those of `scope`.
    pub(crate) fn count(&self, scope: &Scope) -> Sql {
        format!("SELECT COUNT(*) FROM {}{}", self.table, scope.condition).into()
    }

    /// The rows whose `column` is one of `count` parameters, each held for the transaction where `lock` says so.
    pub(crate) fn having(&self, column: &str, count: usize, lock: &str) -> Sql {
        format!("SELECT {} FROM {} WHERE {} IN ({}){lock}", self.columns, self.table, quoted(column), list(1, count))
            .into()
    }

    /// Empties `column` where it is one of `count` parameters, after `updated_at` as the first.
    pub(crate) fn empty(&self, column: &str, count: usize) -> Sql {
        let (table, column, ids) = (&self.table, quoted(column), list(2, count));
        let returning = &self.columns;
        format!(
            "UPDATE {table} SET {column} = NULL, \"updated_at\" = ?1 WHERE {column} IN ({ids}) RETURNING {returning}"
        )
        .into()
    }

    /// Whether a record with the id of the first parameter exists: anywhere, or within a reach, whose parameters follow.
    pub(crate) fn exists(&self, reach: Option<&Reach>) -> Sql {
        let mut sql = format!("SELECT 1 AS found FROM {} WHERE \"id\" = ?1", self.table);
        for (index, column) in reach.into_iter().flat_map(|reach| self.bounds(reach)).enumerate() {
            let _infallible = write!(sql, " AND {column} = ?{}", index + 2);
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
        let mut scope = Scope { condition: String::new(), params: reach.params().collect() };
        for (index, column) in self.bounds(reach).enumerate() {
            let word = if index == 0 { " WHERE" } else { " AND" };
            let _infallible = write!(scope.condition, "{word} {column} = ?{}", index + 1);
        }
        let kept = match trashed {
            Trashed::Without if self.soft_delete => "\"deleted_at\" IS NULL",
            Trashed::Only => "\"deleted_at\" IS NOT NULL",
            Trashed::Without | Trashed::With => "",
        };
        if !kept.is_empty() {
            scope.condition.push_str(if scope.condition.is_empty() { " WHERE " } else { " AND " });
            scope.condition.push_str(kept);
        }
        if *filter != Predicate::All(Vec::new()) {
            scope.condition.push_str(if scope.condition.is_empty() { " WHERE " } else { " AND " });
            filter::sql::write(filter, columns, engine, &mut scope.condition, &mut scope.params);
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

/// What keeps a statement from records that were deleted and kept aside.
fn live(soft_delete: bool) -> &'static str {
    if soft_delete { " AND \"deleted_at\" IS NULL" } else { "" }
}

fn insert(model: &Model, table: &str, returning: &str) -> Sql {
    let fields = model.fields.iter().map(|field| &*field.name);
    let columns: Vec<String> =
        std::iter::once("id").chain(fields).chain(["created_at", "updated_at"]).map(quoted).collect();
    let (names, values) = (columns.join(", "), list(1, columns.len()));
    format!("INSERT INTO {table} ({names}) VALUES ({values}) RETURNING {returning}").into()
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
