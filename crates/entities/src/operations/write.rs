//! How a create or an update reaches the database, and its event the bus.

use std::sync::Arc;

use gatewright_db::{Error as DatabaseError, Sql, Tx, Value};
use gatewright_events::{Bus, EventKind, Receipts};

use super::hook::Change;
use super::links::{self, Link};
use super::{Error, IfMatch};
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;

/// One statement with RETURNING that writes one record, and what must hold for it.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) kind: EventKind,
    pub(super) plan: Arc<Plan>,
    pub(super) sql: Sql,
    pub(super) params: Vec<Value>,
    pub(super) links: Vec<Link>,
    pub(super) precondition: Option<Precondition>,
}

/// The record must be as the caller knows it.
#[derive(Debug)]
pub(super) struct Precondition {
    pub(super) if_match: IfMatch,
    /// Selects the record, and holds it for the transaction.
    pub(super) sql: Sql,
    pub(super) params: Vec<Value>,
}

/// Runs a write in a transaction of its own, and waits for its event where streams ask for that. `None` when the
/// statement matched no record.
pub(super) async fn run(entities: &Entities, write: Write) -> Result<Option<Record>, Error> {
    let commit = Commit::new(entities.bus());
    let alone = write.links.is_empty() && write.precondition.is_none() && entities.hooks().is_empty();
    let record =
        if alone { statement(entities, write, &commit).await? } else { transaction(entities, write, &commit).await? };
    commit.wait().await;
    Ok(record)
}

async fn statement(entities: &Entities, write: Write, commit: &Commit) -> Result<Option<Record>, Error> {
    let Write { kind, plan, sql, params, .. } = write;
    let each = {
        let plan = plan.clone();
        move |record: &mut Option<Record>, row: &gatewright_db::RowRef<'_>| {
            *record = Some(plan.shape.record(row)?);
            Ok(())
        }
    };
    let announce = {
        let (plan, commit) = (plan.clone(), commit.clone());
        move |record: &Option<Record>| {
            if let Some(record) = record {
                commit.announce(&[Change { kind, plan, record: record.clone() }]);
            }
        }
    };
    let written = entities.db().write_fold(sql, params, None, each, announce).await;
    written.map_err(|error| Error::from(error).named_by(&plan))
}

async fn transaction(entities: &Entities, write: Write, commit: &Commit) -> Result<Option<Record>, Error> {
    let plan = write.plan.clone();
    let (hooks, commit) = (entities.clone(), commit.clone());
    let written = entities.db().write(async move |tx: &Tx| -> Result<_, Error> {
        let Some(change) = perform(tx, &write).await? else { return Ok(None) };
        let record = change.record.clone();
        finish(tx, &hooks, &commit, vec![change]).await?;
        Ok(Some(record))
    });
    written.await.map_err(|error: Error| error.named_by(&plan))
}

/// Runs the statement inside a transaction, once everything holds that must.
async fn perform(tx: &Tx, write: &Write) -> Result<Option<Change>, Error> {
    if let Some(precondition) = &write.precondition {
        precondition.check(tx, &write.plan).await?;
    }
    links::check(tx, &write.links).await?;
    let record = one(tx, &write.plan, &write.sql, write.params.clone()).await?;
    Ok(record.map(|record| Change { kind: write.kind, plan: write.plan.clone(), record }))
}

/// Runs the hooks, and announces the changes once they are durable.
pub(super) async fn finish(tx: &Tx, entities: &Entities, commit: &Commit, changes: Vec<Change>) -> Result<(), Error> {
    for hook in entities.hooks() {
        for change in &changes {
            hook.written(tx, change).await?;
        }
    }
    let commit = commit.clone();
    tx.after_commit(move || commit.announce(&changes));
    Ok(())
}

/// The record that a statement returns.
pub(super) async fn one(tx: &Tx, plan: &Plan, sql: &Sql, params: Vec<Value>) -> Result<Option<Record>, DatabaseError> {
    tx.fold(sql, params, None, |record, row| {
        *record = Some(plan.shape.record(row)?);
        Ok(())
    })
    .await
}

impl Precondition {
    pub(super) async fn check(&self, tx: &Tx, plan: &Plan) -> Result<(), Error> {
        let record = one(tx, plan, &self.sql, self.params.clone()).await?.ok_or(Error::NotFound)?;
        if self.if_match.matches(&record.etag()) { Ok(()) } else { Err(Error::Precondition) }
    }
}

/// Takes a transaction's events to the bus, and the receipts back to whoever waits for them.
#[derive(Clone)]
pub(super) struct Commit(Option<(Bus, Receipts)>);

impl Commit {
    pub(super) fn new(bus: Option<&Bus>) -> Self {
        Self(bus.map(|bus| (bus.clone(), Receipts::default())))
    }

    fn announce(&self, changes: &[Change]) {
        if let Some((bus, receipts)) = &self.0 {
            receipts.add(bus.publish_all(changes.iter().map(Change::event).collect()));
        }
    }

    /// Waits for the streams that asked writers to wait for them.
    pub(super) async fn wait(self) {
        if let Some((_, receipts)) = self.0
            && !receipts.wait().await
        {
            tracing::debug!("a blocking stream had no room for an event in time and lost its oldest");
        }
    }
}
