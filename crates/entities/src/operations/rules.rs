//! The access rules of writes.
//!
//! A rule is evaluated for a record as it is stored, or as it will be stored: then the new values replace it, in the
//! types of its columns, so that the rule is checked before a unique index can refuse the write. The record itself does
//! not count in its own back relations, so that callers cannot grant themselves access by creating a membership.

use std::fmt::Write as _;

use gatewright_base::Identity;
use gatewright_db::{Engine, Tx, Value};

use crate::access::{Action, Refusal};
use crate::condition::Bound;
use crate::encode::Record;
use crate::error::Error;
use crate::fragment::{quoted, typed};
use crate::plan::Plan;
use crate::schema::type_word;

/// The record that a rule is evaluated for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    /// As it is stored, whether in the trash or not.
    Stored(&'a str),
    /// As it will be stored: the parameters of its INSERT.
    Created(&'a [Value]),
    /// As it will be after these values were set.
    Changed(&'a str, &'a [Option<Value>], &'a Value),
}

/// Fails if the rule does not hold: 401 for anonymous callers, 403 for others.
pub(super) async fn check(
    tx: &Tx,
    plan: &Plan,
    identity: &Identity,
    action: Action,
    rule: Option<&Bound>,
    subject: Subject<'_>,
) -> Result<(), Error> {
    let Some(rule) = rule else { return Ok(()) };
    if holds(tx, plan, rule, subject, Count::WithoutItself).await? {
        return Ok(());
    }
    match identity.principal() {
        None => Err(Refusal::Unauthenticated.into()),
        Some(_) => Err(Error::Rule(action)),
    }
}

/// Whether the caller may read a record that this transaction has written.
pub(super) async fn is_readable(tx: &Tx, plan: &Plan, rule: &Bound, record: &Record) -> Result<bool, Error> {
    holds(tx, plan, rule, Subject::Stored(record.id()), Count::All).await
}

/// Which records count in back relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    All,
    WithoutItself,
}

pub(super) async fn holds(
    tx: &Tx,
    plan: &Plan,
    rule: &Bound,
    subject: Subject<'_>,
    count: Count,
) -> Result<bool, Error> {
    let table = quoted(&plan.table);
    let (from, mut params) = match subject {
        Subject::Stored(id) => (format!("{table} WHERE \"id\" = ?1"), vec![Value::from(id)]),
        Subject::Created(values) => (created(plan, values.len()), values.to_vec()),
        Subject::Changed(id, values, now) => changed(plan, id, values, now),
    };
    let from = match subject {
        Subject::Stored(_) => format!("{from} AND "),
        Subject::Created(_) | Subject::Changed(..) => format!("({from}) AS {table} WHERE "),
    };
    let first = params.len() + 1;
    let (condition, more) = match count {
        Count::All => rule.sql(&table, first, crate::condition::bound::Form::Single),
        Count::WithoutItself => rule.check(&table, plan.index, first),
    };
    params.extend(more);
    Ok(tx.query_opt(format!("SELECT 1 AS found FROM {from}{condition}"), params).await?.is_some())
}

/// The row that an INSERT will create from its parameters.
fn created(plan: &Plan, count: usize) -> String {
    let fields = plan.fields.iter().map(|field| (&*field.column, type_word(field.kind)));
    let own = [("created_at", "{time}"), ("updated_at", "{time}")];
    let columns = std::iter::once(("id", "{text}")).chain(fields).chain(own);
    let mut sql = "SELECT ".to_owned();
    for (index, (column, word)) in columns.take(count).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _infallible = write!(sql, "{comma}{} AS {}", typed(plan.engine, word, index + 1), quoted(column));
    }
    if plan.soft_delete {
        let null = match plan.engine {
            Engine::Sqlite => "NULL",
            Engine::Postgres => "CAST(NULL AS timestamptz)",
        };
        let _infallible = write!(sql, ", {null} AS \"deleted_at\"");
    }
    sql
}

/// The stored row, with new values that replace old ones.
fn changed(plan: &Plan, id: &str, values: &[Option<Value>], now: &Value) -> (String, Vec<Value>) {
    let mut params = vec![Value::from(id), now.clone()];
    let mut sql = format!("SELECT \"id\", \"created_at\", {} AS \"updated_at\"", typed(plan.engine, "{time}", 2));
    if plan.soft_delete {
        sql.push_str(", \"deleted_at\"");
    }
    for (field, value) in plan.fields.iter().zip(values) {
        let column = quoted(&field.column);
        let _infallible = match value {
            None => write!(sql, ", {column}"),
            Some(value) => {
                params.push(value.clone());
                write!(sql, ", {} AS {column}", typed(plan.engine, type_word(field.kind), params.len()))
            }
        };
    }
    let _infallible = write!(sql, " FROM {} WHERE \"id\" = ?1", quoted(&plan.table));
    (sql, params)
}
