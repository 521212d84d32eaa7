//! The numbers of sequences, given in the transaction of a write.

use gatewright_db::{Tx, Value};

use super::marks;
use super::rules::{self, Subject};
use crate::error::Error;
use crate::plan::{NumberedField, Plan};
use crate::schema::sequences::{self, TABLE};

/// Gives a new record its numbers.
pub(super) async fn number(tx: &Tx, plan: &Plan, values: &mut [Option<Value>]) -> Result<(), Error> {
    for sequence in &plan.sequences {
        let scope = sequence.scope.iter().map(|index| values[*index].clone().unwrap_or(Value::Null));
        let row = tx.query_opt(sequence.next.clone(), scope.collect()).await?.ok_or(Error::NotFound)?;
        values[sequence.field] = Some(Value::Int(row.get("number")?));
    }
    Ok(())
}

/// Gives a record a new number where the change moves it into another scope.
pub(super) async fn number_again(
    tx: &Tx,
    plan: &Plan,
    id: &str,
    values: &mut [Option<Value>],
    now: &Value,
) -> Result<(), Error> {
    for sequence in &plan.sequences {
        let given: Vec<usize> = sequence.scope.iter().copied().filter(|index| values[*index].is_some()).collect();
        let subject = Subject::Changed(id, values, now);
        if given.is_empty() || rules::changed_among(tx, plan, &given, subject).await?.is_empty() {
            continue;
        }
        values[sequence.field] = Some(next(tx, plan, sequence, subject).await?);
    }
    Ok(())
}

/// Takes the marks of a record whose new numbers are among `values`: where such a number equals the old one, the change looks
/// like one by a program that gives none.
pub(super) async fn unmark(tx: &Tx, plan: &Plan, id: &str, values: &[Option<Value>]) -> Result<(), Error> {
    for sequence in plan.sequences.iter().filter(|sequence| values[sequence.field].is_some()) {
        marks::take(tx, plan, &plan.fields.at(sequence.field).column, id).await?;
    }
    Ok(())
}

pub(super) async fn next(tx: &Tx, plan: &Plan, sequence: &NumberedField, subject: Subject<'_>) -> Result<Value, Error> {
    let (from, mut params) = rules::row(plan, subject, &std::collections::BTreeSet::new());
    let column = &plan.fields.at(sequence.field).column;
    params.push(Value::Text(sequences::name(&plan.table, column)));
    let sql = format!(
        "INSERT INTO {TABLE} (name, scope, last) SELECT CAST(?{} AS text), {}, 1 FROM {from} WHERE TRUE \
         ON CONFLICT (name, scope) DO UPDATE SET last = {TABLE}.last + 1 RETURNING last",
        params.len(),
        sequence.sql
    );
    let row = tx.query_opt(sql, params).await?.ok_or(Error::NotFound)?;
    Ok(Value::Int(row.get("last")?))
}
