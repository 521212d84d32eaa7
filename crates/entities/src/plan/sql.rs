use std::fmt::Write;

use gatewright_db::{Engine, Sql, Value, dialect};

use super::Sort;
use crate::declare::Model;
use crate::filter::{self, Columns, Predicate};

/// An identifier in quotes, so that an entity may be called `order`. Names were checked to hold no quotes.
pub(crate) fn quoted(name: &str) -> String {
    debug_assert!(!name.contains('"'), "names are plain words");
    format!("\"{name}\"")
}

/// A statement about one record: any, or one of the owner in its last parameter.
#[derive(Debug)]
pub(crate) struct One {
    all: Sql,
    scoped: Option<Sql>,
}

impl One {
    /// The form for callers who reach everything, or for those who reach their own records.
    pub(crate) fn within(&self, owner: Option<&str>) -> Sql {
        match (owner, &self.scoped) {
            (Some(_), Some(scoped)) => scoped.clone(),
            _ => self.all.clone(),
        }
    }
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
    /// Parameters: id, and owner in the owned form.
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
        let one = |before: &str, after: &str| {
            let text = |owned: &str| Sql::from(format!("{before} WHERE \"id\" = ?1{owned}{after}"));
            One { all: text(""), scoped: owner.as_deref().map(|owner| text(&format!(" AND {owner} = ?2"))) }
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
        }
    }

    /// Parameters: a value for each of `set`, id, and owner where it is given.
    pub(crate) fn update<'a>(&self, set: impl Iterator<Item = &'a str>, owner: Option<&str>) -> Sql {
        let mut sql = format!("UPDATE {} SET ", self.table);
        let mut number = 0;
        for column in set {
            number += 1;
            let comma = if number == 1 { "" } else { ", " };
            let _infallible = write!(sql, "{comma}\"{column}\" = ?{number}");
        }
        let _infallible = write!(sql, " WHERE \"id\" = ?{}", number + 1);
        if let (Some(_), Some(column)) = (owner, &self.owner) {
            let _infallible = write!(sql, " AND {column} = ?{}", number + 2);
        }
        let _infallible = write!(sql, " RETURNING {}", self.columns);
        sql.into()
    }

    /// Parameters: those of `scope`, then limit and offset.
    pub(crate) fn list(&self, sort: &Sort, scope: &Scope) -> Sql {
        let (columns, table, order, condition) = (&self.columns, &self.table, sort.sql(), &scope.condition);
        let next = scope.params.len() + 1;
        format!("SELECT {columns} FROM {table}{condition} ORDER BY {order} LIMIT ?{next} OFFSET ?{}", next + 1).into()
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

    /// Whether a record with the id of the first parameter exists, and belongs to the second where an owner is given.
    pub(crate) fn exists(&self, owner: Option<&str>) -> Sql {
        let scope = match (owner, &self.owner) {
            (Some(_), Some(column)) => format!(" AND {column} = ?2"),
            _ => String::new(),
        };
        format!("SELECT 1 AS found FROM {} WHERE \"id\" = ?1{scope}", self.table).into()
    }

    /// The rows of `owner`, where one is given, that pass `filter`.
    pub(crate) fn scope(&self, owner: Option<&str>, filter: &Predicate, columns: &Columns, engine: Engine) -> Scope {
        let mut scope = Scope { condition: String::new(), params: Vec::new() };
        if let (Some(owner), Some(column)) = (owner, &self.owner) {
            let _infallible = write!(scope.condition, " WHERE {column} = ?1");
            scope.params.push(Value::Text(owner.to_owned()));
        }
        if *filter != Predicate::All(Vec::new()) {
            scope.condition.push_str(if scope.condition.is_empty() { " WHERE " } else { " AND " });
            filter::sql::write(filter, columns, engine, &mut scope.condition, &mut scope.params);
        }
        scope
    }
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
