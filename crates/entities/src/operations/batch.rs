//! Many writes as one: either all of them happen, or none.
//!
//! Each item is handled like a single write, in order, in one transaction; the first failure ends it. Items are parsed
//! before the transaction begins. The error of an invalid item is reported only when it is its turn, so that the
//! reported failure is the first of all. Permission and membership of the tenant are checked once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use gatewright_db::Value;
use serde_json::value::RawValue;

use super::body::Body;
use super::create::Create;
use super::delete::Delete;
use super::links::Relations;
use super::transaction::{Transaction, within};
use super::update::Update;
use crate::access::{Action, Reach};
use crate::call::Call;
use crate::context::admission::{Admission, admit};
use crate::context::gate::share;
use crate::context::table::Table;
use crate::error::Error;
use crate::filter::Predicate;
use crate::plan::{Plan, Trashed};
use crate::value::body::{MAX_ERRORS, malformed};
use crate::value::json::Members;
use crate::value::{BodyError, FieldError, code};

/// The most items of one batch.
pub const MAX_ITEMS: usize = 100;

/// The result of a batch.
#[derive(Debug)]
pub enum Batch {
    /// All items were written. Contains the records in the order of their items; of deleted ones only the id.
    Committed(Vec<Bytes>),
    /// Nothing was written.
    Failed {
        /// Which item failed, counted from 0. The items before it were undone, the items after it were not tried.
        index: usize,
        /// How many items there were.
        items: usize,
        /// Why.
        error: Error,
    },
}

/// One item, read.
enum Item {
    Create(Create),
    Update(Update),
    Delete(Delete),
}

impl Table<'_> {
    /// Runs many writes of one kind as one: `{"items":[…]}` with records to create or, each with its `id`, to change;
    /// `{"ids":[…]}` with records to delete. Either all of them happen, or none.
    ///
    /// Fails if the whole batch is refused or invalid. If one item fails, returns [`Batch::Failed`].
    pub async fn batch(self, call: &Call, action: Action, body: impl Into<Body<'_>>) -> Result<Batch, Error> {
        let body = body.into();
        // There is no batch of reads.
        let action = if action == Action::Read { Action::Create } else { action };
        let admission = admit(self, call, action).await?;
        let parts = parts(&body, if action == Action::Delete { "ids" } else { "items" })?;
        let (mut items, mut invalid) = (Vec::with_capacity(parts.len()), None);
        for part in &parts {
            let relations = Relations { table: self, tx: None, call, standing: &admission.standing };
            match read(relations, &admission, action, part).await {
                Ok(item) => items.push(item),
                Err(error) => {
                    invalid = Some(error);
                    break;
                }
            }
        }
        let (at, fits) = (Arc::new(AtomicUsize::new(0)), items.len());
        let is_invalid = invalid.is_some();
        if fits == 0 {
            return Ok(match invalid {
                Some(error) => Batch::Failed { index: 0, items: parts.len(), error },
                None => Batch::Committed(Vec::new()),
            });
        }
        let rows = Rows { plan: self.plan.clone(), reach: admission.reach.clone() };
        let (doing, items, most) = (at.clone(), Arc::new(items), call.surface.most_bytes());
        let caller = call.clone();
        let done = within(self.entities, share(call), async move |transaction: &Transaction<'_>| {
            let table = Table { entities: transaction.entities, plan: &rows.plan };
            hold(transaction, &rows, &items).await?;
            let (mut records, mut bytes) = (Vec::with_capacity(items.len()), 0);
            for (index, item) in items.iter().enumerate() {
                doing.store(index, Ordering::Relaxed);
                let done = item.perform(transaction).await;
                let record = match item.id() {
                    Some(id) => transaction.reveal_if_readable(table, &caller, id, done).await?,
                    None => done?,
                };
                bytes += record.len();
                if bytes > most && index > 0 {
                    return Err(Error::TooLarge);
                }
                records.push(record);
            }
            doing.store(items.len(), Ordering::Relaxed);
            // All before it would have happened, and is undone.
            if is_invalid { Err(Error::NotFound) } else { Ok(records) }
        });
        match done.await {
            Ok(records) => Ok(Batch::Committed(records)),
            Err(Error::Database(error)) => Err(error.into()),
            Err(error) => {
                let index = at.load(Ordering::Relaxed);
                let error = if index == fits { invalid.unwrap_or(error) } else { error };
                Ok(Batch::Failed { index, items: parts.len(), error })
            }
        }
    }
}

/// The rows that a batch may reach.
struct Rows {
    plan: Arc<Plan>,
    reach: Reach,
}

/// Locks the rows that the batch changes, in the order of their ids. So batches that change the same rows wait for each
/// other, independent of the order of their items. Locked in the order of the items, they could deadlock.
async fn hold(transaction: &Transaction<'_>, rows: &Rows, items: &[Item]) -> Result<(), Error> {
    let ids: Vec<&str> = items.iter().filter_map(Item::id).collect();
    if ids.len() < 2 {
        return Ok(());
    }
    let Rows { plan, reach } = rows;
    let everything = Predicate::All(Vec::new());
    let mut scope = plan.sql.scope(reach, Trashed::With, &everything, &plan.columns, plan.engine);
    if let Some(sql) = plan.sql.hold(&scope, plan.engine) {
        scope.params.push(Value::Text(serde_json::json!(ids).to_string()));
        transaction.tx.query(sql, scope.params).await?;
    }
    Ok(())
}

impl Item {
    /// The record that it changes.
    fn id(&self) -> Option<&str> {
        match self {
            Self::Create(_) => None,
            Self::Update(update) => Some(update.id()),
            Self::Delete(delete) => Some(delete.id()),
        }
    }

    async fn perform(&self, transaction: &Transaction<'_>) -> Result<Bytes, Error> {
        Ok(match self {
            Self::Create(create) => create.perform(transaction).await?.json().clone(),
            Self::Update(update) => update.perform(transaction).await?.json().clone(),
            // The permission to delete does not include the permission to read.
            Self::Delete(delete) => {
                serde_json::json!({ "id": delete.perform(transaction).await?.id() }).to_string().into()
            }
        })
    }
}

async fn read(relations: Relations<'_>, admission: &Admission, action: Action, part: &RawValue) -> Result<Item, Error> {
    let Relations { table, call, .. } = relations;
    let body = part.get().as_bytes();
    Ok(match action {
        Action::Create | Action::Read => Item::Create(Create::read(relations, admission, body).await?),
        Action::Update => Item::Update(Update::read(relations, admission, &id_in(body)?, body).await?),
        Action::Delete => Item::Delete(Delete::read(table, call, admission, &id(Some(part.get()))?)?),
    })
}

/// The entries of the array that is the body's one member.
fn parts<'a>(body: &'a [u8], key: &'static str) -> Result<Vec<&'a RawValue>, Error> {
    let Members(members) = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    let mut errors = Vec::new();
    let mut list = None;
    for (name, value) in members {
        if errors.len() == MAX_ERRORS {
            return Err(Error::Body(BodyError::Invalid(errors)));
        }
        if name != key {
            let shown: String = name.chars().take(64).collect();
            errors.push(field(
                &shown,
                code::UNKNOWN_FIELD,
                format!("is not part of a batch, which is {{\"{key}\": […]}}"),
            ));
        } else if list.replace(value).is_some() {
            errors.push(field(key, code::DUPLICATE, "is given more than once"));
        }
    }
    let parts: Vec<&'a RawValue> = match list {
        None => {
            errors.push(field(key, code::REQUIRED, "is required"));
            Vec::new()
        }
        Some(list) => serde_json::from_str(list).unwrap_or_else(|_| {
            errors.push(field(key, code::TYPE, "must be an array"));
            Vec::new()
        }),
    };
    if parts.len() > MAX_ITEMS {
        errors.push(field(key, code::MAX, format!("must have at most {MAX_ITEMS} entries")));
    }
    if errors.is_empty() { Ok(parts) } else { Err(Error::Body(BodyError::Invalid(errors))) }
}

/// The id among an item's members.
fn id_in(item: &[u8]) -> Result<String, Error> {
    let Members(members) = serde_json::from_slice(item).map_err(|error| malformed(&error))?;
    let mut ids = members.iter().filter(|(key, _)| key == "id").map(|(_, value)| *value);
    let first = ids.next();
    if ids.next().is_some() {
        return Err(Error::Body(BodyError::Invalid(vec![field("id", code::DUPLICATE, "is given more than once")])));
    }
    id(first)
}

fn id(json: Option<&str>) -> Result<String, Error> {
    let wrong = |code, message: &str| Error::Body(BodyError::Invalid(vec![field("id", code, message)]));
    let json = json.ok_or_else(|| wrong(code::REQUIRED, "is required"))?;
    serde_json::from_str(json).map_err(|_| wrong(code::TYPE, "must be a text"))
}

fn field(name: &str, code: &'static str, message: impl Into<String>) -> FieldError {
    FieldError { field: name.to_owned(), code, message: message.into() }
}
