//! Writes that are one: of one entity or of several, all in one transaction.
//!
//! Items are read before the transaction begins. An item may name the record of an earlier one, whose id may be known
//! only inside: until then another id stands for it ([`Known`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use gatewright_db::Value;
use gatewright_db::json::Json;
use serde_json::json;

use super::create::Create;
use super::delete::Delete;
use super::transaction::{Transaction, asking};
use super::update::Update;
use super::upsert::Upsert;
use super::write;
use crate::access::Reach;
use crate::answers::{self, Keeping, Written};
use crate::call::Call;
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::context::table::Table;
use crate::encode::Record;
use crate::error::Error;
use crate::filter::Predicate;
use crate::hooks::outside::Questions;
use crate::plan::{Plan, Statement, Trashed};
use crate::value::operator::Operator;
use crate::value::{BodyError, code};

/// How often everything runs again because another transaction created the record of an upsert in between.
const MAX_RUNS: usize = 20;

/// One write of several, read.
pub(super) struct Item {
    plan: Arc<Plan>,
    call: Call,
    doing: Doing,
    /// The keys of the fields that name records of earlier items.
    links: Vec<String>,
    /// Whether it is a write by itself, and not one of a batch.
    is_alone: bool,
}

pub(super) enum Doing {
    Create(Box<Create>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Upsert(Box<Upsert>),
}

/// An item that was performed.
pub(super) struct Done {
    pub(super) record: Record,
    /// What its caller gets.
    pub(super) json: Bytes,
    /// Whether the record is new.
    pub(super) is_new: bool,
}

/// What became of all items.
pub(super) enum Outcome {
    Committed(Vec<Done>),
    /// Nothing was written. The items before the one at `index` were undone, those after it were not tried.
    Failed {
        index: usize,
        error: Error,
    },
}

/// The ids of records that were found by upserts, by the ids that stood for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(HashMap<String, String>);

impl Known {
    /// The id in the place of this one.
    pub(super) fn id<'a>(&'a self, id: &'a str) -> &'a str {
        self.0.get(id).map_or(id, |id| id)
    }

    /// The value of a field, with the id in the place of the one that stood for it.
    pub(super) fn value(&self, plan: &Plan, index: usize, value: &Value) -> Value {
        match value {
            Value::Text(id) if plan.fields.at(index).relation.is_some() => Value::from(self.id(id)),
            Value::Json(ids) if plan.fields.at(index).links.is_some() => {
                self.linked(ids).unwrap_or_else(|| value.clone())
            }
            value => value.clone(),
        }
    }

    /// A list of ids, with the ids in the place of those that stood for them. `None` if it has none of these.
    fn linked(&self, ids: &Json) -> Option<Value> {
        let ids: Vec<String> = serde_json::from_str(ids.as_str()).ok()?;
        if !ids.iter().any(|id| self.0.contains_key(id)) {
            return None;
        }
        let known: Vec<&str> = ids.iter().map(|id| self.id(id)).collect();
        Json::read(&json!(known).to_string()).ok().map(Value::Json)
    }

    /// An operator on a field, with the ids in the place of those that stood for them.
    pub(super) fn operator(&self, plan: &Plan, index: usize, operator: &Operator) -> Operator {
        let is_link = plan.fields.at(index).links.is_some();
        let known = |item: &String| match serde_json::from_str::<String>(item) {
            Ok(id) if is_link => json!(self.id(&id)).to_string(),
            _ => item.clone(),
        };
        match operator {
            Operator::Append(items) => Operator::Append(items.iter().map(known).collect()),
            Operator::Remove(items) => Operator::Remove(items.iter().map(known).collect()),
            Operator::Add(number) => Operator::Add(number.clone()),
        }
    }

    pub(super) fn values(&self, plan: &Plan, values: &[Option<Value>]) -> Vec<Option<Value>> {
        let value =
            |(index, value): (usize, &Option<Value>)| value.as_ref().map(|value| self.value(plan, index, value));
        values.iter().enumerate().map(value).collect()
    }
}

impl Item {
    pub(super) fn new(table: Table<'_>, call: &Call, doing: Doing) -> Self {
        Self { plan: table.plan.clone(), call: call.clone(), doing, links: Vec::new(), is_alone: false }
    }

    /// The same item. These of its fields name records of earlier items.
    pub(super) fn linked(self, links: Vec<String>) -> Self {
        Self { links, ..self }
    }

    /// The same item, as a write by itself.
    pub(super) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// The id by which later items name the record. `None` if it can have none.
    pub(super) fn placeholder(&mut self, next: impl FnOnce() -> String) -> Option<String> {
        match &mut self.doing {
            Doing::Create(create) => Some(create.id_or(next)),
            Doing::Upsert(upsert) => upsert.placeholder(next),
            Doing::Update(_) | Doing::Delete(_) => None,
        }
    }

    /// The record that it changes, and how far its caller reaches.
    fn target(&self) -> Option<(&str, &Reach)> {
        match &self.doing {
            Doing::Create(_) | Doing::Upsert(_) => None,
            Doing::Update(update) => Some((update.id(), update.reach())),
            Doing::Delete(delete) => Some((delete.id(), delete.reach())),
        }
    }

    fn table<'a>(&'a self, entities: &'a Entities) -> Table<'a> {
        Table { entities, plan: &self.plan }
    }

    async fn perform(&self, transaction: &Transaction<'_>, known: &mut Known) -> Result<Done, Error> {
        self.performed(transaction, known).await.map_err(|error| without_links(&self.links, error))
    }

    async fn performed(&self, transaction: &Transaction<'_>, known: &mut Known) -> Result<Done, Error> {
        let table = self.table(transaction.entities);
        let whole = |record: Record, is_new| Done { json: record.json().clone(), record, is_new };
        Ok(match &self.doing {
            Doing::Create(create) => whole(create.knowing(known).perform(transaction).await?, true),
            Doing::Update(update) => {
                let update = update.knowing(known);
                let done = update.perform(transaction).await;
                whole(transaction.reveal_if_readable(table, &self.call, update.id(), done).await?, false)
            }
            Doing::Delete(delete) => {
                let delete = delete.knowing(known);
                let done = delete.perform(transaction).await;
                let record = transaction.reveal_if_readable(table, &self.call, delete.id(), done).await?;
                let record = delete.seen(record);
                // The permission to delete does not include the permission to read.
                Done { json: json!({ "id": record.id() }).to_string().into(), record, is_new: false }
            }
            Doing::Upsert(upsert) => {
                let upsert = upsert.knowing(known);
                let (record, is_new) = upsert.perform(transaction).await?;
                if let Some(placeholder) = upsert.placeholder_id() {
                    known.0.insert(placeholder.to_owned(), record.id().to_owned());
                }
                whole(record, is_new)
            }
        })
    }
}

/// The error of an item without the relations to records of earlier items, unless it has no others. Only the transaction
/// sees these records, and what looks for the reason of an error may not be in it.
pub(super) fn without_links(links: &[String], error: Error) -> Error {
    let Error::Body(BodyError::Invalid(errors)) = error else { return error };
    let is_link = |field: &str| links.iter().any(|link| link == field);
    let others = errors.iter().filter(|error| error.code != code::RELATION || !is_link(&error.field)).cloned();
    let others: Vec<_> = others.collect();
    Error::Body(BodyError::Invalid(if others.is_empty() { errors } else { others }))
}

/// Performs the items in order in one transaction. `invalid` is the error of the item after them, for which everything before
/// it must have happened.
///
/// Fails if the database fails.
pub(super) async fn run(
    entities: &Entities,
    call: &Call,
    items: Vec<Item>,
    mut invalid: Option<Error>,
) -> Result<Outcome, Error> {
    let fits = items.len();
    if let (0, Some(error)) = (fits, invalid.take_if(|_| fits == 0)) {
        return Ok(Outcome::Failed { index: 0, error });
    }
    if fits == 0 && call.keeping.is_none() {
        return Ok(Outcome::Committed(Vec::new()));
    }
    let items = Arc::new(items);
    let mut runs = 1;
    let questions = Questions::default();
    loop {
        let at = Arc::new(AtomicUsize::new(0));
        let error = match once(entities, call, &questions, (&items, &at), invalid.is_some()).await {
            Ok(done) => return Ok(Outcome::Committed(done)),
            Err(error @ (Error::Database(_) | Error::KeyInProgress)) => return Err(error),
            Err(error) => error,
        };
        let index = at.load(Ordering::Relaxed);
        if let Some(Item { doing: Doing::Upsert(upsert), plan, .. }) = items.get(index)
            && runs < MAX_RUNS
            && upsert.lost_a_race(Table { entities, plan }, &error).await
        {
            runs += 1;
            continue;
        }
        let error = if index == fits { invalid.unwrap_or(error) } else { error };
        return Ok(Outcome::Failed { index, error });
    }
}

async fn once(
    entities: &Entities,
    call: &Call,
    questions: &Questions,
    (items, at): (&Arc<Vec<Item>>, &Arc<AtomicUsize>),
    is_invalid: bool,
) -> Result<Vec<Done>, Error> {
    let (at, items, most) = (at.clone(), items.clone(), call.surface.most_bytes());
    let keeping = call.keeping.clone();
    asking(entities, share(call), questions, async move |transaction: &Transaction<'_>| {
        let done = perform(transaction, &items, &at, most).await?;
        if is_invalid {
            // All before it would have happened, and is undone.
            return Err(Error::NotFound);
        }
        keep(transaction, keeping.as_ref(), &items, &done).await?;
        Ok(done)
    })
    .await
}

/// Performs the items in order. `at` becomes the position of the item that is performed; `most` is that of bytes of their answers.
pub(super) async fn perform(
    transaction: &Transaction<'_>,
    items: &[Item],
    at: &AtomicUsize,
    most: usize,
) -> Result<Vec<Done>, Error> {
    hold(transaction, items).await?;
    let mut open = None;
    let (mut done, mut bytes, mut known) = (Vec::with_capacity(items.len()), 0, Known::default());
    for (index, item) in items.iter().enumerate() {
        at.store(index, Ordering::Relaxed);
        let record = match item.perform(transaction, &mut known).await {
            // Nothing is written without the answer. The questions of later items are asked together with this one.
            Err(error) if Questions::is_open(&error) => {
                open = Some(error);
                continue;
            }
            performed => performed?,
        };
        bytes += record.json.len();
        if bytes > most && index > 0 {
            return Err(Error::TooLarge);
        }
        done.push(record);
    }
    at.store(items.len(), Ordering::Relaxed);
    open.map_or(Ok(done), Err)
}

/// Keeps the answer to all items, or to the only one, if their request has a key.
async fn keep(
    transaction: &Transaction<'_>,
    keeping: Option<&Keeping>,
    items: &[Item],
    done: &[Done],
) -> Result<(), Error> {
    if keeping.is_none() {
        return Ok(());
    }
    let is_shown = |(item, _): &(&Item, &Done)| !matches!(item.doing, Doing::Delete(_));
    let shown = items.iter().zip(done).filter(is_shown);
    let records: Vec<String> = shown.map(|(item, done)| answers::record(&item.plan.table, done.record.id())).collect();
    let results: Vec<Bytes> = done.iter().map(|done| done.json.clone()).collect();
    let written = match done {
        [one] if items.iter().any(|item| item.is_alone) => Written::Record(&one.record, one.is_new),
        _ => Written::Batch(&results),
    };
    transaction.keep_all(keeping, &written, &records).await
}

/// Locks the rows that the items change, in the order of their entities and ids. So batches that change the same rows wait
/// for each other, independent of the order of their items. Locked in the order of the items, they could deadlock.
async fn hold(transaction: &Transaction<'_>, items: &[Item]) -> Result<(), Error> {
    if items.len() < 2 {
        return Ok(());
    }
    let mut targets: BTreeMap<usize, Vec<(&str, &Reach)>> = BTreeMap::new();
    for item in items {
        if let Some(target) = item.target() {
            targets.entry(item.plan.index).or_default().push(target);
        }
    }
    let everything = Predicate::All(Vec::new());
    for (index, mut targets) in targets {
        let plan = transaction.entities.at(index);
        targets.sort_by_key(|(id, _)| *id);
        let [(_, reach), ..] = targets.as_slice() else { continue };
        let mut scope = plan.sql.scope(reach, Trashed::With, &everything, &plan.columns, plan.engine);
        let Some(sql) = plan.sql.hold(&scope, plan.engine) else { return Ok(()) };
        if targets.iter().all(|(_, other)| other == reach) {
            let ids: Vec<&str> = targets.iter().map(|(id, _)| *id).collect();
            scope.params.push(Value::Text(json!(ids).to_string()));
            transaction.tx.query(sql, scope.params).await?;
            continue;
        }
        for (id, reach) in targets {
            let Statement { sql, params } = plan.sql.lock.within(id, reach);
            write::one(transaction.tx, plan, &sql, params).await?;
        }
    }
    Ok(())
}
