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
use super::hooks::Writing;
use super::transaction::{Transaction, within};
use super::write::{self, Precondition, Write};
use super::{Call, Error, IfMatch, get, reach};
use crate::access::{Action, Reach};
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
    let delete = Delete::prepare(entities, plan, call, id, if_match).await?;
    let takes_others =
        !plan.soft_delete && plan.incoming.iter().any(|incoming| incoming.on_delete != OnDelete::Restrict);
    if takes_others || entities.hooks_of(plan).is_some() {
        return within(entities, async move |transaction: &Transaction<'_>| delete.perform(transaction).await).await;
    }
    match write::run(entities, delete.write(entities)).await {
        Ok(record) => record.ok_or(Error::NotFound),
        Err(error) => Err(in_use(error)),
    }
}

/// A record to be deleted, its caller let in.
pub(super) struct Delete {
    plan: Arc<Plan>,
    call: Call,
    reach: Reach,
    /// The parameters that name the record within the reach.
    key: Vec<Value>,
    if_match: Option<IfMatch>,
}

impl Delete {
    pub(super) async fn prepare(
        entities: &Entities,
        plan: &Plan,
        call: &Call,
        id: &str,
        if_match: Option<IfMatch>,
    ) -> Result<Self, Error> {
        let reach = reach(entities, plan, call, Action::Delete).await?;
        Ok(Self { if_match, ..Self::read(entities, plan, call, &reach, id)? })
    }

    /// The same, without a condition, for a caller who was let in already.
    pub(super) fn read(entities: &Entities, plan: &Plan, call: &Call, reach: &Reach, id: &str) -> Result<Self, Error> {
        let key = get::key(id, reach)?;
        let (plan, call) = (entities.at(plan.index).clone(), call.clone());
        Ok(Self { plan, call, reach: reach.clone(), key, if_match: None })
    }

    /// Deletes the record and what hangs on it, with their hooks, inside a transaction.
    pub(super) async fn perform(&self, transaction: &Transaction<'_>) -> Result<Record, Error> {
        let (tx, entities) = (transaction.tx, transaction.entities);
        let held = self.plan.sql.lock.within(&self.reach);
        let root = write::one(tx, &self.plan, &held, self.key.clone()).await?.ok_or(Error::NotFound)?;
        if self.if_match.as_ref().is_some_and(|if_match| !if_match.matches(&root.etag())) {
            return Err(Error::Precondition);
        }
        if self.plan.soft_delete {
            self.ask_hooks(tx, entities, &self.plan, &root).await?;
            let marked = write::perform(transaction, &self.write(entities)).await?;
            return marked.ok_or(Error::NotFound);
        }
        let gone = self.dependents(tx, entities, root).await?;
        // Of those in the trash everybody was told when they went there.
        for change in gone.iter().filter(|change| !change.record.is_deleted()) {
            self.ask_hooks(tx, entities, &change.plan, &change.record).await?;
        }
        let mut changes = self.emptied(tx, entities, &gone).await?;
        let sql = self.plan.sql.delete.within(&self.reach);
        let deleted = write::one(tx, &self.plan, &sql, self.key.clone()).await;
        let record = deleted.map_err(|error| in_use(error.into()))?.ok_or(Error::NotFound)?;
        // Those that hang on others go first, as they would one by one.
        changes.extend(gone.into_iter().rev().filter(|change| !change.record.is_deleted()));
        write::finish(transaction, changes).await?;
        Ok(record)
    }

    async fn ask_hooks(&self, tx: &Tx, entities: &Entities, plan: &Arc<Plan>, record: &Record) -> Result<(), Error> {
        match entities.hooks_of(plan) {
            Some(hooks) => hooks.before_delete(Writing { tx, call: &self.call, plan }, record).await,
            None => Ok(()),
        }
    }

    fn write(&self, entities: &Entities) -> Write {
        let plan = &self.plan;
        let precondition =
            |if_match| Precondition { if_match, sql: plan.sql.lock.within(&self.reach), params: self.key.clone() };
        let (sql, mut params) = if plan.soft_delete {
            (plan.sql.trash(&self.reach), vec![Value::Time(entities.ambient().now())])
        } else {
            (plan.sql.delete.within(&self.reach), Vec::new())
        };
        params.extend(self.key.iter().cloned());
        Write {
            kind: EventKind::Deleted,
            plan: plan.clone(),
            call: self.call.clone(),
            fields: Vec::new(),
            sql,
            params,
            links: Vec::new(),
            precondition: self.if_match.clone().map(precondition),
        }
    }

    /// The record itself and all that its deletion takes along, nearest first, each as it last was.
    async fn dependents(&self, tx: &Tx, entities: &Entities, root: Record) -> Result<Vec<Change>, Error> {
        let plan = &self.plan;
        let deleted = |plan: &Arc<Plan>, record| self.change(EventKind::Deleted, plan, Vec::new(), record);
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
    async fn emptied(&self, tx: &Tx, entities: &Entities, gone: &[Change]) -> Result<Vec<Change>, Error> {
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
                    changes.push(self.change(EventKind::Updated, from, vec![incoming.field], record));
                }
                if changes.len() > MOST_DEPENDENTS {
                    return Err(Error::TooManyDependents(MOST_DEPENDENTS));
                }
            }
        }
        Ok(changes)
    }

    fn change(&self, kind: EventKind, plan: &Arc<Plan>, fields: Vec<usize>, record: Record) -> Change {
        Change { kind, plan: plan.clone(), record, call: self.call.clone(), fields }
    }
}

/// A foreign key that holds a record back is one of another record that refers to it.
fn in_use(error: Error) -> Error {
    match error {
        Error::Database(DatabaseError::ForeignKey { .. }) => Error::InUse,
        error => error,
    }
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
