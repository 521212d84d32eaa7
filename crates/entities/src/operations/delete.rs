//! Deleting a record, and with it what hangs on it.
//!
//! With soft delete that is an update: the record is marked, nothing else is touched, and nobody is told more than that
//! it is gone.
//!
//! Where nothing refers to the entity, or only restricts, this is one statement. Otherwise the database's own cascade
//! would take rows away in silence; so the transaction first reads, and holds, every row that will go, level by level;
//! empties the `set_null` relations to them, as updates of their own; deletes the one record, which takes the others
//! along; and emits an event for each.

use std::collections::HashSet;
use std::sync::Arc;

use gatewright_db::{Error as DatabaseError, Tx, Value, dialect};
use gatewright_events::EventKind;

use super::hook::Change;
use super::write::{self, Commit, Precondition, Write};
use super::{Call, Error, IfMatch, get, reach};
use crate::access::Action;
use crate::declare::OnDelete;
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::{Incoming, Plan};

/// The most records that go with one.
const MOST_DEPENDENTS: usize = 10_000;
/// The most ids in one statement.
const CHUNK: usize = 500;

pub(super) async fn delete(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    id: &str,
    if_match: Option<IfMatch>,
) -> Result<Record, Error> {
    let reach = reach(entities, plan, call, Action::Delete).await?;
    let key = get::key(id, &reach)?;
    let precondition = |if_match| Precondition { if_match, sql: plan.sql.lock.within(&reach), params: key.clone() };
    let write = Write {
        kind: EventKind::Deleted,
        plan: entities.at(plan.index).clone(),
        sql: plan.sql.delete.within(&reach),
        params: key.clone(),
        links: Vec::new(),
        precondition: if_match.map(precondition),
    };
    if plan.soft_delete {
        let mut params = vec![Value::Time(entities.ambient().now())];
        params.extend(key);
        let write = Write { sql: plan.sql.trash(&reach), params, ..write };
        return write::run(entities, write).await?.ok_or(Error::NotFound);
    }
    let takes_others = plan.incoming.iter().any(|incoming| incoming.on_delete != OnDelete::Restrict);
    let deleted = if takes_others {
        // Anything that matches will do, where the caller did not say what must.
        let held = precondition(IfMatch::Any);
        with_dependents(entities, write, held).await
    } else {
        write::run(entities, write).await
    };
    match deleted {
        Ok(record) => record.ok_or(Error::NotFound),
        Err(Error::Database(DatabaseError::ForeignKey { .. })) => Err(Error::InUse),
        Err(error) => Err(error),
    }
}

async fn with_dependents(entities: &Entities, write: Write, held: Precondition) -> Result<Option<Record>, Error> {
    let commit = Commit::new(entities.bus());
    let (all, announced) = (entities.clone(), commit.clone());
    let deleted = entities.db().write(async move |tx: &Tx| -> Result<Option<Record>, Error> {
        write.precondition.as_ref().unwrap_or(&held).check(tx, &write.plan).await?;
        let Some(root) = write::one(tx, &write.plan, &held.sql, held.params.clone()).await? else { return Ok(None) };
        let gone = dependents(tx, &all, &write.plan, root).await?;
        let mut changes = emptied(tx, &all, &gone).await?;
        let Some(record) = write::one(tx, &write.plan, &write.sql, write.params.clone()).await? else {
            return Ok(None);
        };
        // Those that hang on others go first, as they would one by one.
        // Of those in the trash everybody was told when they went there.
        changes.extend(gone.into_iter().rev().filter(|change| !change.record.is_deleted()));
        write::finish(tx, &all, &announced, changes).await?;
        Ok(Some(record))
    });
    let record = deleted.await?;
    commit.wait().await;
    Ok(record)
}

/// The record itself and all that its deletion takes along, nearest first, each as it last was.
async fn dependents(tx: &Tx, entities: &Entities, plan: &Arc<Plan>, root: Record) -> Result<Vec<Change>, Error> {
    let deleted = |plan: &Arc<Plan>, record| Change { kind: EventKind::Deleted, plan: plan.clone(), record };
    let mut seen = HashSet::from([(plan.index, root.id().to_owned())]);
    let mut gone = vec![deleted(plan, root)];
    let mut level = 0..1;
    while !level.is_empty() {
        let mut found = Vec::new();
        for (incoming, ids) in pointing_at(entities, &gone[level.clone()], OnDelete::Cascade) {
            let from = entities.at(incoming.from);
            for record in referring(tx, from, &incoming, &ids).await? {
                if seen.insert((from.index, record.id().to_owned())) {
                    found.push(deleted(from, record));
                }
            }
        }
        level = gone.len()..gone.len() + found.len();
        gone.append(&mut found);
        if gone.len() > MOST_DEPENDENTS {
            return Err(Error::TooManyDependents(MOST_DEPENDENTS));
        }
    }
    Ok(gone)
}

/// Empties the `set_null` relations to records that go, on those that stay.
async fn emptied(tx: &Tx, entities: &Entities, gone: &[Change]) -> Result<Vec<Change>, Error> {
    let going: HashSet<(usize, &str)> = gone.iter().map(|change| (change.plan.index, change.record.id())).collect();
    let mut changes: Vec<Change> = Vec::new();
    for (incoming, ids) in pointing_at(entities, gone, OnDelete::SetNull) {
        let from = entities.at(incoming.from);
        let column = &from.fields.at(incoming.field).column;
        for ids in ids.chunks(CHUNK) {
            let mut params = vec![Value::Time(entities.ambient().now())];
            params.extend(ids.iter().cloned());
            let records = records(tx, from, from.sql.empty(column, ids.len()), params).await?;
            let stays = |record: &Record| !record.is_deleted() && !going.contains(&(from.index, record.id()));
            for record in records.into_iter().filter(stays) {
                // One that loses two relations has changed once, into what the second statement returned.
                changes.retain(|change| change.plan.index != from.index || change.record.id() != record.id());
                changes.push(Change { kind: EventKind::Updated, plan: from.clone(), record });
            }
            if changes.len() > MOST_DEPENDENTS {
                return Err(Error::TooManyDependents(MOST_DEPENDENTS));
            }
        }
    }
    Ok(changes)
}

/// The relations with that rule which point at the entities of `changes`, each with the ids of the records there.
fn pointing_at(entities: &Entities, changes: &[Change], rule: OnDelete) -> Vec<(Incoming, Vec<Value>)> {
    let mut pointing: Vec<(Incoming, Vec<Value>)> = Vec::new();
    for plan in entities.plans() {
        let ids = changes.iter().filter(|change| change.plan.index == plan.index);
        let ids: Vec<Value> = ids.map(|change| Value::from(change.record.id())).collect();
        if !ids.is_empty() {
            let relations = plan.incoming.iter().filter(|incoming| incoming.on_delete == rule);
            pointing.extend(relations.map(|incoming| (incoming.clone(), ids.clone())));
        }
    }
    pointing
}

/// The records whose relation names one of `ids`, held for the transaction.
async fn referring(tx: &Tx, from: &Plan, incoming: &Incoming, ids: &[Value]) -> Result<Vec<Record>, DatabaseError> {
    let column = &from.fields.at(incoming.field).column;
    let mut found = Vec::new();
    for ids in ids.chunks(CHUNK) {
        let sql = from.sql.having(column, ids.len(), dialect::for_update(tx.engine()));
        found.extend(records(tx, from, sql, ids.to_vec()).await?);
    }
    Ok(found)
}

async fn records(
    tx: &Tx,
    plan: &Plan,
    sql: gatewright_db::Sql,
    params: Vec<Value>,
) -> Result<Vec<Record>, DatabaseError> {
    tx.fold(sql, params, Vec::new(), |records, row| {
        records.push(plan.shape.record(row)?);
        Ok(())
    })
    .await
}
