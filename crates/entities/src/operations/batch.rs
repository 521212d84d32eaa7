//! Many writes as one: either all of them happen, or none.
//!
//! Each item is handled like a single write, in order, in one transaction; the first failure ends it. Items are parsed
//! before the transaction begins. The error of an invalid item is reported only when it is its turn, so that the
//! reported failure is the first of all. Permission and membership of the tenant are checked once.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::body::Body;
use super::create::Create;
use super::delete::Delete;
use super::items::{self, Doing, Item, Outcome};
use super::links::Relations;
use super::members::{self, Target};
use super::precondition::{Condition, IfMatch};
use super::update::Update;
use super::upsert::{OnConflict, Rights, Upsert};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::{Admission, admit};
use crate::context::table::Table;
use crate::error::Error;
use crate::value::body::Mode;

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

impl Batch {
    pub(super) fn of(outcome: Outcome, items: usize) -> Self {
        match outcome {
            Outcome::Committed(done) => Self::Committed(done.into_iter().map(|done| done.json).collect()),
            Outcome::Failed { index, error } => Self::Failed { index, items, error },
        }
    }
}

impl Table<'_> {
    /// Runs many writes of one kind as one: `{"items":[…]}` with records to create or, each with its `id`, to change or to
    /// delete; `{"ids":[…]}` with records to delete. A change and a deletion may have a condition, `ifMatch`. Either all of
    /// them happen, or none.
    ///
    /// Fails if the whole batch is refused or invalid. If one item fails, returns [`Batch::Failed`].
    pub async fn batch(self, call: &Call, action: Action, body: impl Into<Body<'_>>) -> Result<Batch, Error> {
        let body = body.into();
        let kind = match action {
            Action::Update => Kind::Update(admit(self, call, action).await?),
            Action::Delete => Kind::Delete(admit(self, call, action).await?),
            // There is no batch of reads.
            Action::Create | Action::Read => Kind::Create(admit(self, call, Action::Create).await?),
        };
        self.run(call, &kind, &body).await
    }

    /// Runs many upserts as one, like [`batch`](Self::batch).
    pub async fn batch_upsert(
        self,
        call: &Call,
        body: impl Into<Body<'_>>,
        on_conflict: &OnConflict,
    ) -> Result<Batch, Error> {
        let body = body.into();
        let kind = Kind::Upsert(Box::new(Rights::of(self, call, on_conflict).await?));
        self.run(call, &kind, &body).await
    }

    async fn run(self, call: &Call, kind: &Kind, body: &[u8]) -> Result<Batch, Error> {
        let keys: &[&'static str] = if matches!(kind, Kind::Delete(_)) { &["ids", "items"] } else { &["items"] };
        let (key, parts) = members::parts(body, keys)?;
        let (mut items, mut invalid) = (Vec::with_capacity(parts.len()), None);
        for part in &parts {
            match kind.read(self, call, key, part).await {
                Ok(doing) => items.push(Item::new(self, call, doing)),
                Err(error) => {
                    invalid = Some(error);
                    break;
                }
            }
        }
        Ok(Batch::of(items::run(self.entities, call, items, invalid).await?, parts.len()))
    }
}

/// What all items of a batch do, and what its caller may do by it.
enum Kind {
    Create(Admission),
    Update(Admission),
    Delete(Admission),
    Upsert(Box<Rights>),
}

impl Kind {
    /// One item. `key` is the name of the list that it is in.
    async fn read(&self, table: Table<'_>, call: &Call, key: &str, part: &RawValue) -> Result<Doing, Error> {
        let body = part.get().as_bytes();
        Ok(match self {
            Self::Create(admission) => {
                let relations = Relations::outside(table, call, admission);
                Doing::Create(Box::new(Create::read(relations, admission, body, Mode::Create).await?))
            }
            Self::Update(admission) => {
                let Target { id, if_match, body } = Target::read(body)?;
                let update = Update::read(Relations::outside(table, call, admission), admission, &id, &body).await?;
                Doing::Update(Box::new(update.under(condition(table, call, admission, if_match))))
            }
            Self::Delete(admission) if key == "ids" => {
                let id = members::id(Some(part.get()))?;
                Doing::Delete(Box::new(Delete::read(table, call, admission, &id)?))
            }
            Self::Delete(admission) => {
                let Target { id, if_match, .. } = Target::of_deletion(body)?;
                let delete = Delete::read(table, call, admission, &id)?;
                Doing::Delete(Box::new(delete.under(condition(table, call, admission, if_match))))
            }
            Self::Upsert(rights) => Doing::Upsert(Box::new(Upsert::read(table, call, rights, body).await?)),
        })
    }
}

/// The condition of an item, for its caller.
pub(super) fn condition(
    table: Table<'_>,
    call: &Call,
    admission: &Admission,
    if_match: Option<IfMatch>,
) -> Option<Condition> {
    if_match.map(|if_match| Condition::new(table, call, admission, if_match))
}
