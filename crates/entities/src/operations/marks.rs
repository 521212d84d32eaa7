//! Completes the records that another program wrote beside this server, as an older server does during an upgrade: it gives
//! them their numbers, folded texts and words.

use std::sync::Arc;

use gatewright_db::{Error as DatabaseError, Row, Tx, Value, dialect, params};
use gatewright_events::EventKind;

use super::previous;
use super::rules::Subject;
use super::transaction::{Transaction, within};
use super::{sequences, write};
use crate::before;
use crate::builder::Tables;
use crate::call::Call;
use crate::context::entities::{Entities, Upkeep};
use crate::context::gate::share;
use crate::declare::model::folded_column;
use crate::encode::Stored;
use crate::error::Error;
use crate::fragment::quoted;
use crate::hooks::change::{Before, Change};
use crate::plan::{NumberedField, Plan};
use crate::schema::marks::TABLE;
use crate::schema::{self, Dropped, SchemaError};
use crate::search::build;
use crate::search::index::MARKED;

/// How many marks are read at once.
const PAGE: i64 = 200;

/// What a mark names: a field and a record.
#[derive(Debug, Clone)]
struct Mark {
    field: String,
    id: String,
}

impl Entities {
    /// Completes every marked record, each in a transaction of its own, and returns how many there were. A number is a change of the
    /// record, with an event; a folded text is not visible. A record that cannot be completed keeps its mark. One
    /// whose folded text another record has is left without it. The log names both.
    pub async fn complete_marked(&self) -> Result<u64, Error> {
        let mut completed = 0;
        for plan in self.plans().iter().filter(|plan| plan.is_marked()) {
            let mut after = (String::new(), String::new());
            loop {
                let marks = self.marks(plan, &after).await?;
                let Some(last) = marks.last() else { break };
                after = (last.field.clone(), last.id.clone());
                for mark in marks {
                    let mut done = self.complete(plan, &mark, false).await;
                    let (table, Mark { field, id }) = (&plan.table, &mark);
                    if let Err(Error::Database(DatabaseError::Unique { .. })) = done {
                        tracing::warn!(%table, field, id, "another program wrote a record with the text of another one");
                        done = self.complete(plan, &mark, true).await;
                    }
                    match done {
                        Ok(()) => completed += 1,
                        Err(error) => {
                            tracing::warn!(%error, %table, field, id, "a record that another program wrote was not completed");
                        }
                    }
                }
            }
        }
        Ok(completed)
    }

    /// Makes again the triggers and indexes that a server of an older configuration, which does not know them, dropped at its start.
    /// Returns how many statements it took. Fails if the tables are only checked ([`Tables::Check`]). An index that was dropped is
    /// not searched until it has all records. If a table has those of another declaration instead, the server that started last is in
    /// charge, and nothing is made: otherwise two servers would undo each other's.
    pub async fn keep_derived(&self) -> Result<usize, SchemaError> {
        let Upkeep { declarations, users, tables } = self.upkeep();
        let dropped = schema::dropped(self.db(), declarations).await?;
        for Dropped { table, is_unfed, .. } in &dropped {
            let of_table = |plan: &&Arc<Plan>| *is_unfed && plan.table == *table;
            let searched = self.plans().iter().find(of_table).and_then(|plan| plan.index_of_words.as_ref());
            if let Some(index) = searched {
                index.set_built(false);
            }
        }
        if dropped.is_empty() || dropped.iter().any(|dropped| dropped.is_foreign) {
            return Ok(0);
        }
        for Dropped { table, .. } in &dropped {
            tracing::warn!(%table, "a server of another configuration dropped triggers or the search index of a table");
        }
        match tables {
            Tables::Check => schema::check(self.db(), declarations, users).await.map(|()| 0),
            Tables::Create => Ok(schema::apply(self.db(), declarations, users).await?.statements.len()),
        }
    }

    /// Builds the indexes of words that are declared and not built yet, in batches, and returns when they have all records. Other
    /// servers may do the same meanwhile.
    pub async fn build_search(&self) -> Result<(), Error> {
        for index in self.plans().iter().filter_map(|plan| plan.index_of_words.as_ref()) {
            if !index.is_built(self.db()).await? {
                build::build(self.db(), index).await?;
            }
        }
        Ok(())
    }

    async fn complete(&self, plan: &Arc<Plan>, mark: &Mark, apart: bool) -> Result<(), Error> {
        let call = Call::default().as_operator();
        let (plan, mark) = (plan.clone(), mark.clone());
        within(self, share(&call), async move |transaction: &Transaction<'_>| {
            complete(transaction, &plan, &mark, &call, apart).await
        })
        .await
    }

    async fn marks(&self, plan: &Plan, (field, id): &(String, String)) -> Result<Vec<Mark>, Error> {
        let sql = format!(
            "SELECT field, id FROM {TABLE} WHERE table_name = ?1 AND (field > ?2 OR (field = ?2 AND id > ?3)) \
             ORDER BY field, id LIMIT {PAGE}"
        );
        let rows = self.db().query(sql, params![&*plan.table, field, id]).await?;
        let mark = |row: &Row| Ok(Mark { field: row.get("field")?, id: row.get("id")? });
        rows.iter().map(mark).collect()
    }
}

async fn complete(
    transaction: &Transaction<'_>,
    plan: &Arc<Plan>,
    mark: &Mark,
    call: &Call,
    apart: bool,
) -> Result<(), Error> {
    let (tx, Mark { field, id }) = (transaction.tx, mark);
    // Locked first: a write that is in progress sets its mark again after this transaction.
    transaction.take_memory(plan, id, call).await?;
    let held = plan.sql.with_ids(1, dialect::for_update(tx.engine()));
    let held = write::one(tx, plan, &held, vec![Value::from(&**id)]).await?;
    let is_changed = take(tx, plan, field, id).await?;
    let (Some(held), Some(is_changed)) = (held, is_changed) else { return Ok(()) };
    if let (MARKED, Some(index)) = (&**field, &plan.index_of_words) {
        return Ok(build::complete(tx, index, id).await?);
    }
    match plan.sequences.iter().find(|sequence| plan.fields.at(sequence.field).column == *field) {
        Some(sequence) if is_changed || !has_number(tx, plan, field, id).await? => {
            number(transaction, plan, sequence, &held, call).await
        }
        Some(_) => Ok(()),
        None => fold(tx, plan, field, id, apart).await,
    }
}

/// Whether the record has been numbered since it was marked, as by a change of tables.
async fn has_number(tx: &Tx, plan: &Plan, column: &str, id: &str) -> Result<bool, Error> {
    let (table, column) = (quoted(&plan.table), quoted(column));
    let sql = format!("SELECT 1 AS found FROM {table} WHERE \"id\" = ?1 AND {column} IS NOT NULL");
    Ok(tx.query_opt(sql, params![id]).await?.is_some())
}

/// Gives a record its number. One that is not in the trash is told to streams.
async fn number(
    transaction: &Transaction<'_>,
    plan: &Arc<Plan>,
    sequence: &NumberedField,
    held: &Stored,
    call: &Call,
) -> Result<(), Error> {
    let (tx, entities, id) = (transaction.tx, transaction.entities, held.id());
    let fields = vec![sequence.field];
    let mut row = None;
    if !held.is_deleted() && before::is_touched(plan, &fields) {
        row = before::take(tx, plan, &[id], entities.asks_before(plan)).await?.remove(id);
    }
    let number = sequences::next(tx, plan, sequence, Subject::Stored(id)).await?;
    let params = vec![Value::Time(entities.ambient().now()), Value::from(id), number];
    let set = plan.sql.set(&plan.fields.at(sequence.field).column);
    let record = write::one(tx, plan, &set, params).await?.ok_or(Error::NotFound)?;
    if record.is_deleted() {
        return Ok(());
    }
    let (plan, record, call) = (plan.clone(), record.into_whole(), call.clone());
    let before = Before { row, audience: None };
    let is_wanted = previous::is_wanted(entities, &plan);
    let previous = is_wanted.then(|| previous::between(&plan, held, &record)).flatten();
    let change = Change { kind: EventKind::Updated, plan, record, call, fields, audience: None, before, previous };
    write::finish(transaction, vec![change]).await
}

/// Takes a mark away. Returns whether the record had an old value when it was marked; `None` without a mark.
pub(super) async fn take(tx: &Tx, plan: &Plan, field: &str, id: &str) -> Result<Option<bool>, DatabaseError> {
    let sql = format!("DELETE FROM {TABLE} WHERE table_name = ?1 AND field = ?2 AND id = ?3 RETURNING is_changed");
    let row = tx.query_opt(sql, params![&*plan.table, field, id]).await?;
    row.map(|row| row.get("is_changed")).transpose()
}

/// Stores the folded text beside a text or, with `apart`, none, so that the record conflicts with none.
async fn fold(tx: &Tx, plan: &Plan, column: &str, id: &str, apart: bool) -> Result<(), Error> {
    let (table, folded) = (quoted(&plan.table), quoted(&folded_column(column)));
    let text = if apart { "NULL".to_owned() } else { dialect::folded(&quoted(column)) };
    tx.execute(format!("UPDATE {table} SET {folded} = {text} WHERE \"id\" = ?1"), params![id]).await?;
    Ok(())
}
