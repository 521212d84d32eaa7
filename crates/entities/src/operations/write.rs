//! How a create or an update reaches the database, and its event the bus.

use std::sync::Arc;

use gatewright_db::json::Json;
use gatewright_db::{Db, Error as DatabaseError, RowRef, Sql, Tx, Value, ValueRef};
use gatewright_events::{EventKind, LoggedInsert};

use super::commit::Commit;
use super::linked;
use super::links::{self, Link};
use super::memory::Memory;
use super::precondition::Condition;
use super::previous;
use super::staging;
use super::transaction::{Transaction, within};
use crate::access::Action;
use crate::answers;
use crate::before;
use crate::call::Call;
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::encode::Stored;
use crate::error::Error;
use crate::hooks::Writing;
use crate::hooks::change::{self, Before, Change};
use crate::plan::{Plan, Statement};

/// One statement with RETURNING that writes one record, and the conditions that must hold for it.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) kind: EventKind,
    pub(super) plan: Arc<Plan>,
    /// The record, unless it is a new one.
    pub(super) id: Option<String>,
    /// The record that the statement returns, in the trash or not, unless it is a new one.
    pub(super) returned: Option<String>,
    pub(super) call: Call,
    /// The positions of the fields that it sets.
    pub(super) fields: Vec<usize>,
    pub(super) sql: Sql,
    pub(super) params: Vec<Value>,
    pub(super) links: Vec<Link>,
    /// The lists that it gives to relations to many records, by the positions of their fields.
    pub(super) linked: Vec<(usize, Json)>,
    pub(super) precondition: Option<Precondition>,
}

impl Write {
    /// Whether nothing besides its statement and its event belongs into its transaction.
    pub(super) fn is_alone(&self, entities: &Entities) -> bool {
        let belongs = !entities.hooks().is_empty()
            || entities.hooks_of(&self.plan).is_some()
            || self.plan.row_rules.get(Action::Read).is_some()
            || entities.followers().want(self.plan.index)
            || (self.kind == EventKind::Deleted && entities.answers().is_some());
        let is_linked = !self.links.is_empty() || !self.linked.is_empty();
        !is_linked && self.precondition.is_none() && !belongs
    }

    /// The values that the read rule reads of the record, if this write can change them or removes the record.
    async fn before(&self, transaction: &Transaction<'_>) -> Result<Before, Error> {
        let wanted = match self.kind {
            EventKind::Created => false,
            EventKind::Updated => before::is_touched(&self.plan, &self.fields),
            EventKind::Deleted => true,
        };
        let Some(id) = self.id.as_deref().filter(|_| wanted) else { return Ok(Before::default()) };
        let is_asked = transaction.entities.asks_before(&self.plan);
        let mut taken = before::take(transaction.tx, &self.plan, &[id], is_asked).await?;
        Ok(Before { row: taken.remove(id), audience: None })
    }
}

/// The record must be as the caller knows it.
#[derive(Debug)]
pub(super) struct Precondition {
    pub(super) condition: Condition,
    /// Selects the record, and holds it for the transaction.
    pub(super) held: Statement,
}

/// Runs a write in a separate transaction, and waits for its event if streams require that. `None` if the statement
/// matched no record.
pub(super) async fn run(entities: &Entities, write: Write) -> Result<Option<Stored>, Error> {
    let alone = write.is_alone(entities);
    if alone && !staging::is_staged(entities) {
        return statement(entities, write).await;
    }
    if alone && let Some((sql, record, logged)) = staging::insert(entities, write.kind, &write.plan, &write.params)? {
        let memory = Memory::default();
        memory.take_values(entities, &write.params, &write.call)?;
        let db = entities.db().writing_for(share(&write.call));
        return logged_insert(entities, &db, &write.plan, sql, record, logged).await;
    }
    // Boxed: the closure is part of several futures, and each reserves room for it.
    let (share, write) = (share(&write.call), Box::new(write));
    within(entities, share, async move |transaction: &Transaction<'_>| perform(transaction, &write).await).await
}

async fn statement(entities: &Entities, write: Write) -> Result<Option<Stored>, Error> {
    let commit = Commit::new(entities.bus());
    let memory = Memory::default();
    match &write.returned {
        Some(id) => memory.take_alone(entities, (&write.plan, id), &write.call).await?,
        None => memory.take_values(entities, &write.params, &write.call)?,
    }
    let Write { kind, plan, sql, params, call, .. } = write;
    let each = {
        let plan = plan.clone();
        move |record: &mut Option<Stored>, row: &RowRef<'_>| {
            *record = Some(plan.shape.record(row)?);
            Ok(())
        }
    };
    let announce = {
        let (plan, commit) = (plan.clone(), commit.clone());
        move |record: &Option<Stored>| {
            if let Some(record) = record {
                commit.announce(vec![change::event(kind, &plan, record.whole())]);
            }
        }
    };
    let db = entities.db().writing_for(share(&call));
    let written = db.write_fold(sql, params, None, each, announce).await;
    let record = written.map_err(|error| Error::from(error).named_by(&plan))?;
    commit.wait().await;
    Ok(record)
}

/// Makes a record and logs it, in one statement.
async fn logged_insert(
    entities: &Entities,
    db: &Db,
    plan: &Plan,
    sql: Sql,
    record: Stored,
    mut logged: LoggedInsert,
) -> Result<Option<Stored>, Error> {
    let commit = Commit::new(entities.bus());
    let params = std::mem::take(&mut logged.params);
    let announce = {
        let commit = commit.clone();
        move |position: &Option<i64>| {
            if let Some(position) = position {
                commit.announce(vec![logged.event_at(*position)]);
            }
        }
    };
    let position = |found: &mut Option<i64>, row: &RowRef<'_>| {
        if let ValueRef::Int(position) = row.value(0)? {
            *found = Some(position);
        }
        Ok(())
    };
    let written = db.write_fold(sql, params, None, position, announce).await;
    let position = written.map_err(|error| Error::from(error).named_by(plan))?;
    commit.wait().await;
    Ok(position.map(|_| record))
}

/// Runs the statement inside a transaction, after all required conditions are checked, with its side effects. `None` if
/// it matched no record.
pub(super) async fn perform(transaction: &Transaction<'_>, write: &Write) -> Result<Option<Stored>, Error> {
    let (tx, plan) = (transaction.tx, &write.plan);
    match &write.returned {
        Some(id) => transaction.take_memory(plan, id, &write.call).await?,
        None => transaction.memory.take_values(transaction.entities, &write.params, &write.call)?,
    }
    if let Some(precondition) = &write.precondition {
        precondition.check(tx, plan).await?;
    }
    links::check(tx, &write.links).await?;
    let before = write.before(transaction).await?;
    let earlier = match (write.kind, &write.returned) {
        (EventKind::Updated, Some(id)) => previous::take(tx, transaction.entities, plan, &[id]).await?.remove(id),
        _ => None,
    };
    let written = match &plan.sql.insert_blindly {
        Some(sql) if write.kind == EventKind::Created => inserted(tx, plan, sql, &write.params).await,
        _ => one(tx, plan, &write.sql, write.params.clone()).await,
    };
    let Some(record) = written.map_err(|error| Error::from(error).named_by(plan))? else { return Ok(None) };
    linked::store(tx, plan, record.id(), &write.linked).await?;
    let (call, fields) = (write.call.clone(), write.fields.clone());
    let change = Change {
        kind: write.kind,
        plan: plan.clone(),
        record: record.whole().clone(),
        call,
        fields,
        audience: None,
        before,
        previous: earlier.and_then(|earlier| previous::between(plan, &earlier, record.whole())),
    };
    finish(transaction, vec![change]).await?;
    Ok(Some(record))
}

/// Runs the hooks that come after, and announces the changes once they are durable.
pub(super) async fn finish(transaction: &Transaction<'_>, mut changes: Vec<Change>) -> Result<(), Error> {
    let (tx, entities) = (transaction.tx, transaction.entities);
    for change in &changes {
        if let Some(hooks) = entities.hooks_of(&change.plan) {
            let writing = Writing { tx, transaction, call: &change.call, plan: &change.plan };
            match change.kind {
                EventKind::Created => hooks.after_create(writing, &change.record).await?,
                EventKind::Updated => hooks.after_update(writing, &change.record).await?,
                EventKind::Deleted => hooks.after_delete(writing, &change.record).await?,
            }
        }
    }
    // For a deleted record, the followers were determined before.
    let is_gone = |change: &Change| change.kind == EventKind::Deleted && !change.record.is_deleted();
    for change in changes.iter_mut().filter(|change| change.audience.is_none() && !is_gone(change)) {
        let row = change.before.row.as_deref().filter(|_| change.kind == EventKind::Updated);
        let audience = transaction.audience(&change.plan, change.record.id(), row).await?;
        change.audience = audience.map(|audience| audience.after(change.before.audience.as_ref()));
    }
    let gone = changes.iter().filter(|change| change.kind == EventKind::Deleted);
    let gone: Vec<String> = gone.map(|change| answers::record(&change.plan.table, change.record.id())).collect();
    if entities.answers().is_some() && !gone.is_empty() {
        answers::blank(tx, &gone).await?;
    }
    for hook in entities.hooks() {
        for change in &changes {
            hook.written(tx, change).await?;
        }
    }
    let mut events = Vec::with_capacity(changes.len());
    for change in &changes {
        let event = staging::stage(entities, tx, share(&change.call), change).await?;
        if let (Some(id), Some(audience)) = (event.id(), &change.audience) {
            entities.followers().remember(id, audience);
        }
        events.push(event);
    }
    let commit = transaction.commit.clone();
    tx.after_commit(move || commit.announce(events));
    Ok(())
}

/// The positions of the fields that `values` sets.
pub(super) fn fields(values: &[Option<Value>]) -> Vec<usize> {
    values.iter().enumerate().filter_map(|(index, value)| value.as_ref().map(|_| index)).collect()
}

/// The record that a statement returns.
pub(super) async fn one(tx: &Tx, plan: &Plan, sql: &Sql, params: Vec<Value>) -> Result<Option<Stored>, DatabaseError> {
    tx.fold(sql, params, None, |record, row| {
        *record = Some(plan.shape.record(row)?);
        Ok(())
    })
    .await
}

/// The record that an INSERT creates from these values. `None` if a trigger prevented it.
async fn inserted(tx: &Tx, plan: &Plan, sql: &Sql, params: &[Value]) -> Result<Option<Stored>, DatabaseError> {
    let count = tx.execute(sql, params.to_vec()).await?;
    if count == 0 { Ok(None) } else { plan.shape.inserted(params).map(Some) }
}

impl Precondition {
    pub(super) async fn check(&self, tx: &Tx, plan: &Plan) -> Result<(), Error> {
        let Statement { sql, params } = &self.held;
        let record = one(tx, plan, sql, params.clone()).await?.ok_or(Error::NotFound)?;
        self.condition.check(&record)
    }
}
