//! The access rules of writes.
//!
//! A rule is evaluated for a record as it is stored, or as it will be stored: then the new values replace it, in the
//! types of its columns, so that the rule is checked before a unique index can refuse the write. The record itself does
//! not count in its own back relations, so that callers cannot grant themselves access by creating a membership.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gatewright_base::Identity;
use gatewright_db::{Tx, Value};

use crate::access::{Action, Refusal};
use crate::condition::{Bound, old_name};
use crate::encode::Stored;
use crate::error::Error;
use crate::fragment::{null, quoted, typed};
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
pub(super) async fn is_readable(tx: &Tx, plan: &Plan, rule: &Bound, record: &Stored) -> Result<bool, Error> {
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
    let (from, mut params) = row(plan, subject, &rule.rule.resolved.condition.old_columns());
    let (condition, more) = condition(plan, rule, count, params.len() + 1);
    params.extend(more);
    Ok(tx.query_opt(format!("SELECT 1 AS found FROM {from} WHERE {condition}"), params).await?.is_some())
}

/// The positions of the rules that do not hold for a record that is written. It does not count in its own back relations.
pub(super) async fn broken(tx: &Tx, plan: &Plan, rules: &[Bound], subject: Subject<'_>) -> Result<Vec<usize>, Error> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let old = rules.iter().flat_map(|rule| rule.rule.resolved.condition.old_columns()).collect();
    let (from, mut params) = row(plan, subject, &old);
    let mut tests = Vec::with_capacity(rules.len());
    for rule in rules {
        let (condition, more) = condition(plan, rule, Count::WithoutItself, params.len() + 1);
        params.extend(more);
        tests.push(format!("CASE WHEN {condition} THEN 0 ELSE 1 END"));
    }
    selected(tx, &tests, &from, params).await
}

/// The positions, among `fields`, of those that have another value than before the change.
pub(super) async fn changed_among(
    tx: &Tx,
    plan: &Plan,
    fields: &[usize],
    subject: Subject<'_>,
) -> Result<Vec<usize>, Error> {
    let columns: Vec<&str> = fields.iter().map(|index| &*plan.fields.at(*index).column).collect();
    let (from, params) = row(plan, subject, &columns.iter().copied().collect());
    let test = |column: &&str| {
        let (now, old) = (quoted(column), quoted(&old_name(column)));
        format!("CASE WHEN {now} IS DISTINCT FROM {old} THEN 1 ELSE 0 END")
    };
    let tests: Vec<String> = columns.iter().map(test).collect();
    selected(tx, &tests, &from, params).await
}

/// The positions of the expressions that are 1.
async fn selected(tx: &Tx, tests: &[String], from: &str, params: Vec<Value>) -> Result<Vec<usize>, Error> {
    if tests.is_empty() {
        return Ok(Vec::new());
    }
    let name = |position: usize| format!("t{position}");
    let select = |(position, test): (usize, &String)| format!("CAST({test} AS BIGINT) AS \"{}\"", name(position));
    let select: Vec<String> = tests.iter().enumerate().map(select).collect();
    let found = tx.query_opt(format!("SELECT {} FROM {from}", select.join(", ")), params).await?;
    let row = found.ok_or(Error::NotFound)?;
    let mut positions = Vec::new();
    for position in 0..tests.len() {
        if row.get::<i64>(&name(position))? == 1 {
            positions.push(position);
        }
    }
    Ok(positions)
}

fn condition(plan: &Plan, rule: &Bound, count: Count, first: usize) -> (String, Vec<Value>) {
    let table = quoted(&plan.table);
    match count {
        Count::All => rule.sql(&table, first, crate::condition::bound::Form::Single),
        Count::WithoutItself => rule.check(&table, plan.index, first),
    }
}

/// The record as a row that has the table's name, with the values of some columns before the change, for a FROM clause.
pub(super) fn row(plan: &Plan, subject: Subject<'_>, old: &BTreeSet<&str>) -> (String, Vec<Value>) {
    let table = quoted(&plan.table);
    let (select, params) = match subject {
        Subject::Stored(id) => {
            let old = old.iter().map(|column| format!(", {} AS {}", quoted(column), quoted(&old_name(column))));
            // Bytes: a subquery, of which a condition is tested.
            let select = format!("SELECT *{} FROM {} WHERE \"id\" = ?1", old.collect::<String>(), plan.sql.source());
            (select, vec![Value::from(id)])
        }
        Subject::Created(values) => (created(plan, values.len(), old), values.to_vec()),
        Subject::Changed(id, values, now) => changed(plan, id, values, now, old),
    };
    (format!("({select}) AS {table}"), params)
}

/// The row that an INSERT will create from its parameters.
fn created(plan: &Plan, count: usize, old: &BTreeSet<&str>) -> String {
    let fields = plan.fields.iter().map(|field| (&*field.column, type_word(field.kind)));
    let own = [("created_at", "{time}"), ("updated_at", "{time}")];
    let columns = std::iter::once(("id", "{text}")).chain(fields).chain(own);
    let mut sql = "SELECT ".to_owned();
    for (index, (column, word)) in columns.take(count).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _infallible = write!(sql, "{comma}{} AS {}", typed(plan.engine, word, index + 1), quoted(column));
    }
    if plan.soft_delete {
        let _infallible = write!(sql, ", {} AS \"deleted_at\"", null(plan.engine, "{time}"));
    }
    for column in old {
        let word = match plan.fields.iter().find(|field| field.column == *column) {
            Some(field) => type_word(field.kind),
            None if *column == "id" => "{text}",
            None => "{time}",
        };
        let _infallible = write!(sql, ", {} AS {}", null(plan.engine, word), quoted(&old_name(column)));
    }
    sql
}

/// The stored row, with new values that replace old ones.
fn changed(plan: &Plan, id: &str, values: &[Option<Value>], now: &Value, old: &BTreeSet<&str>) -> (String, Vec<Value>) {
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
    for column in old {
        let _infallible = write!(sql, ", {} AS {}", quoted(column), quoted(&old_name(column)));
    }
    let _infallible = write!(sql, " FROM {} WHERE \"id\" = ?1", quoted(&plan.table));
    (sql, params)
}
