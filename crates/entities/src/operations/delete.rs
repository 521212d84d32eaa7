//! Deletes a record and its dependents.
//!
//! With soft delete that is an update: only the record is marked, and nothing else changes.
//!
//! If no other entity refers to this one, or only with `restrict`, this is one statement. Otherwise the database's own
//! cascade would remove rows without events. So the transaction first finds and locks every row to delete
//! ([`cascade`]), reads them, sets `set_null` relations to them to null as separate updates, deletes them from the
//! leaves up, and emits an event for each. A large cascade is deleted in several such transactions.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_db::{Error as DatabaseError, Sql, Tx, Value, dialect};
use gatewright_events::EventKind;

use super::cascade::{self, CHUNK, Closure, Emptied, Found, Limits, Node, Piece};
use super::get;
use super::items::Known;
use super::linked;
use super::precondition::{Condition, IfMatch};
use super::previous;
use super::rules::{self, Subject};
use super::transaction::{Transaction, asking, within};
use super::write::{self, Precondition, Write};
use crate::access::{Action, Reach};
use crate::answers::Written;
use crate::before;
use crate::call::Call;
use crate::condition::Bound;
use crate::context::admission::{Admission, admit};
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::context::table::Table;
use crate::declare::OnDelete;
use crate::encode::{Record, Stored};
use crate::error::Error;
use crate::hooks::Writing;
use crate::hooks::change::{Before, Change};
use crate::hooks::outside::Questions;
use crate::plan::{Incoming, Plan, Statement};
use crate::readable::Readable;

/// The most transactions of one delete.
const MAX_PIECES: usize = 10_000;

impl Table<'_> {
    /// Deletes a record and its cascade, and returns the record as it was. On entities with soft delete the record is
    /// moved to the trash.
    ///
    /// Fails with [`Error::NotFound`], [`Error::NotChangeable`] and [`Error::Precondition`] like
    /// [`update`](Self::update), with [`Error::Rule`] if an access rule does not hold, [`Error::InUse`] if a `restrict`
    /// relation names it, and [`Error::TooManyDependents`] if its cascade has more records than one transaction can
    /// delete.
    pub async fn delete(self, call: &Call, id: &str, if_match: Option<IfMatch>) -> Result<Record, Error> {
        let deleted = match Delete::prepare(self, call, id, if_match).await {
            Ok(delete) => run(self, delete.clone()).await.map(|record| delete.seen(record)),
            Err(error) => Err(error),
        };
        self.reveal_if_readable(call, id, deleted).await
    }
}

async fn run(table: Table<'_>, delete: Delete) -> Result<Stored, Error> {
    let Table { entities, plan } = table;
    let takes_others =
        !plan.soft_delete && plan.incoming.iter().any(|incoming| incoming.on_delete != OnDelete::Restrict);
    if takes_others && cascade::is_divisible(entities, plan) {
        return in_pieces(entities, delete).await;
    }
    // Who may see the deletion, and whose filter it matches, is determined before the record is deleted.
    let is_asked_about = plan.row_rules.iter().next().is_some() || entities.followers().want(plan.index);
    let is_kept = delete.call.keeping.is_some();
    if takes_others || entities.hooks_of(plan).is_some() || is_asked_about || is_kept {
        let share = share(&delete.call);
        return within(entities, share, async move |transaction: &Transaction<'_>| {
            let record = delete.perform(transaction).await?;
            delete.keep(transaction, &record).await?;
            Ok(record)
        })
        .await;
    }
    match write::run(entities, delete.write(entities)).await {
        Ok(record) => record.ok_or(Error::NotFound),
        Err(error) => Err(in_use(error)),
    }
}

/// Deletes the record in as many transactions as its dependents need, usually one. The caller's access and `If-Match`
/// are checked in the first: later transactions continue the same deletion.
async fn in_pieces(entities: &Entities, delete: Delete) -> Result<Stored, Error> {
    let (share, delete, questions) = (share(&delete.call), Arc::new(delete), Questions::default());
    for piece in 0..MAX_PIECES {
        let delete = delete.clone();
        let done = asking(entities, share, &questions, async move |transaction: &Transaction<'_>| {
            let done = if piece == 0 { delete.begin(transaction).await? } else { delete.proceed(transaction).await? };
            if let Some(record) = &done {
                delete.keep(transaction, record).await?;
            }
            Ok(done)
        });
        if let Some(record) = done.await? {
            return Ok(record);
        }
    }
    Err(Error::TooManyDependents(Limits::WHOLE.records))
}

/// Removes a record permanently, in the trash or not, with its dependents. No permission is checked: the account that
/// owns it is being deleted.
pub(super) async fn purge(entities: &Entities, plan: &Arc<Plan>, call: &Call, id: &str) -> Result<(), Error> {
    let (share, delete) = (share(call), Arc::new(Delete::unbounded(plan, call, id)));
    if !cascade::is_divisible(entities, plan) {
        return within(entities, share, async move |transaction: &Transaction<'_>| {
            let root = delete.held(transaction).await?;
            delete.whole(transaction, &root).await
        })
        .await;
    }
    for piece in 0..MAX_PIECES {
        let delete = delete.clone();
        let done = within(entities, share, async move |transaction: &Transaction<'_>| match piece {
            0 => delete.first(transaction, delete.held(transaction).await?).await,
            _ => delete.proceed(transaction).await,
        });
        if done.await?.is_some() {
            return Ok(());
        }
    }
    Err(Error::TooManyDependents(Limits::WHOLE.records))
}

/// Empties `field`, which names `named`, of records, each of which emits its event. Of a relation to many records only this id
/// goes.
pub(super) async fn empty(
    transaction: &Transaction<'_>,
    plan: &Arc<Plan>,
    field: usize,
    (named, ids): (&str, Vec<String>),
    call: &Call,
) -> Result<(), Error> {
    let incoming = Incoming { from: plan.index, field, on_delete: OnDelete::SetNull };
    let emptied = Emptied { incoming, targets: vec![Value::from(named)], ids };
    Delete::unbounded(plan, call, "").clear(transaction, Piece::Empty(emptied)).await
}

/// A record to be deleted. Its caller is admitted.
#[derive(Clone)]
pub(super) struct Delete {
    plan: Arc<Plan>,
    call: Call,
    reach: Reach,
    /// The access rule for deleting.
    rule: Option<Bound>,
    id: String,
    condition: Option<Condition>,
    /// The fields that the caller may read.
    readable: Readable,
}

impl Delete {
    pub(super) async fn prepare(
        table: Table<'_>,
        call: &Call,
        id: &str,
        if_match: Option<IfMatch>,
    ) -> Result<Self, Error> {
        let admission = admit(table, call, Action::Delete).await?;
        let condition = if_match.map(|if_match| Condition::new(table, call, &admission, if_match));
        Ok(Self { condition, ..Self::read(table, call, &admission, id)? })
    }

    /// Any record.
    fn unbounded(plan: &Arc<Plan>, call: &Call, id: &str) -> Self {
        let (plan, call) = (plan.clone(), call.clone());
        let readable = Readable::all().clone();
        Self { plan, call, reach: Reach::ALL, rule: None, id: id.to_owned(), condition: None, readable }
    }

    /// The same, without a condition, for a caller who was already admitted.
    pub(super) fn read(table: Table<'_>, call: &Call, admission: &Admission, id: &str) -> Result<Self, Error> {
        let id = get::known(id)?.into_owned();
        let (plan, call) = (table.plan.clone(), call.clone());
        let Admission { reach, rule, rights, .. } = admission.clone();
        let readable = rights.of(plan.index).clone();
        Ok(Self { plan, call, reach, rule, id, condition: None, readable })
    }

    /// What the caller sees of the record.
    pub(super) fn seen(&self, record: Stored) -> Record {
        record.seen_by(&self.readable)
    }

    /// The id of the record.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// How far its caller reaches.
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The same deletion under a condition.
    pub(super) fn under(self, condition: Option<Condition>) -> Self {
        Self { condition, ..self }
    }

    /// With the id of an earlier item in the place of its placeholder.
    pub(super) fn knowing(&self, known: &Known) -> Self {
        Self { id: known.id(&self.id).to_owned(), ..self.clone() }
    }

    /// Keeps the answer, if its request has a key.
    async fn keep(&self, transaction: &Transaction<'_>, record: &Stored) -> Result<(), Error> {
        let record = self.seen(record.clone());
        transaction.keep(self.call.keeping.as_ref(), &self.plan, &Written::Deleted(&record)).await
    }

    /// Deletes the record and what depends on it, with their hooks, inside a transaction.
    pub(super) async fn perform(&self, transaction: &Transaction<'_>) -> Result<Stored, Error> {
        let root = self.judged(transaction).await?;
        if self.plan.soft_delete {
            self.ask_hooks(transaction, &self.plan, root.whole()).await?;
            let marked = write::perform(transaction, &self.write(transaction.entities)).await?;
            return marked.ok_or(Error::NotFound);
        }
        self.whole(transaction, &root).await?;
        Ok(root)
    }

    /// Deletes the record and all that depends on it in this one transaction.
    async fn whole(&self, transaction: &Transaction<'_>, root: &Stored) -> Result<(), Error> {
        let sources = [Node::new(&self.plan, root.id())];
        let found = cascade::closure(transaction.tx, transaction.entities, &sources, transaction.room.left()).await?;
        let Found::Whole(closure) = found else { return Err(Error::TooManyDependents(Limits::WHOLE.records)) };
        transaction.room.take(&closure);
        self.carry_out(transaction, &closure).await
    }

    /// The first piece. `None` if there is more to delete.
    async fn begin(&self, transaction: &Transaction<'_>) -> Result<Option<Stored>, Error> {
        let root = self.judged(transaction).await?;
        self.first(transaction, root).await
    }

    async fn first(&self, transaction: &Transaction<'_>, root: Stored) -> Result<Option<Stored>, Error> {
        let (tx, entities) = (transaction.tx, transaction.entities);
        let node = Node::new(&self.plan, root.id());
        match cascade::piece(tx, entities, node.clone(), Limits::PIECE).await? {
            Piece::Last(closure) => self.carry_out(transaction, &closure).await.map(|()| Some(root)),
            piece => {
                if cascade::is_held_back(tx, entities, &node).await? {
                    return Err(Error::InUse);
                }
                self.clear(transaction, piece).await.map(|()| None)
            }
        }
    }

    /// A later piece.
    async fn proceed(&self, transaction: &Transaction<'_>) -> Result<Option<Stored>, Error> {
        let (tx, entities) = (transaction.tx, transaction.entities);
        let root = self.held(transaction).await?;
        match cascade::piece(tx, entities, Node::new(&self.plan, root.id()), Limits::PIECE).await? {
            Piece::Last(closure) => self.carry_out(transaction, &closure).await.map(|()| Some(root)),
            piece => self.clear(transaction, piece).await.map(|()| None),
        }
    }

    async fn clear(&self, transaction: &Transaction<'_>, piece: Piece) -> Result<(), Error> {
        match piece {
            Piece::Last(closure) | Piece::Before(closure) => self.carry_out(transaction, &closure).await,
            Piece::Empty(emptied) => {
                let changes = self.emptied(transaction, &[emptied]).await?;
                write::finish(transaction, changes).await
            }
        }
    }

    /// The record, locked, in the trash or not, for any caller.
    async fn held(&self, transaction: &Transaction<'_>) -> Result<Stored, Error> {
        let tx = transaction.tx;
        transaction.take_memory(&self.plan, self.id(), &self.call).await?;
        let held = self.plan.sql.with_ids(1, dialect::for_update(tx.engine()));
        write::one(tx, &self.plan, &held, vec![Value::from(self.id())]).await?.ok_or(Error::NotFound)
    }

    /// The record, locked, if the caller may delete it as it is now.
    async fn judged(&self, transaction: &Transaction<'_>) -> Result<Stored, Error> {
        let tx = transaction.tx;
        transaction.take_memory(&self.plan, self.id(), &self.call).await?;
        let Statement { sql, params } = self.plan.sql.lock.within(&self.id, &self.reach);
        let root = write::one(tx, &self.plan, &sql, params).await?.ok_or(Error::NotFound)?;
        let (rule, identity) = (self.rule.as_ref(), &self.call.identity);
        rules::check(tx, &self.plan, identity, Action::Delete, rule, Subject::Stored(root.id())).await?;
        if let Some(condition) = &self.condition {
            condition.check(&root)?;
        }
        Ok(root)
    }

    /// Deletes all of `closure`.
    async fn carry_out(&self, transaction: &Transaction<'_>, closure: &Closure) -> Result<(), Error> {
        let (tx, entities) = (transaction.tx, transaction.entities);
        transaction.memory.take_bytes(entities, closure.bytes, &self.call)?;
        let mut gone = self.gone(tx, entities, &closure.gone).await?;
        // A stream gets the delete event if its caller could read the record before.
        for change in &mut gone {
            change.audience = transaction.audience(&change.plan, change.record.id(), None).await?;
        }
        // Records in the trash had their delete event when they were moved there.
        let mut open = None;
        for change in gone.iter().filter(|change| !change.record.is_deleted()) {
            match self.ask_hooks(transaction, &change.plan, &change.record).await {
                // The questions about all records are asked together.
                Err(error) if Questions::is_open(&error) => open = Some(error),
                asked => asked?,
            }
        }
        if let Some(error) = open {
            return Err(error);
        }
        let mut changes = self.emptied(transaction, &closure.emptied).await?;
        // Farthest first: SQLite's own cascade ends at 1,000 levels.
        for nodes in closure.gone.chunk_by(|a, b| a.plan == b.plan && a.level == b.level).rev() {
            for nodes in nodes.chunks(CHUNK) {
                let Some(first) = nodes.first() else { continue };
                let ids = nodes.iter().map(|node| Value::from(&*node.id)).collect();
                let removed = tx.execute(entities.at(first.plan).sql.remove(nodes.len()), ids).await;
                removed.map_err(|error| in_use(error.into()))?;
            }
        }
        // Dependents come first, as in single deletions.
        changes.extend(gone.into_iter().rev().filter(|change| !change.record.is_deleted()));
        write::finish(transaction, changes).await
    }

    async fn ask_hooks(&self, transaction: &Transaction<'_>, plan: &Arc<Plan>, record: &Record) -> Result<(), Error> {
        let writing = Writing { tx: transaction.tx, transaction, call: &self.call, plan };
        match transaction.entities.hooks_of(plan) {
            Some(hooks) => hooks.before_delete(writing, record).await,
            None => Ok(()),
        }
    }

    fn write(&self, entities: &Entities) -> Write {
        let plan = &self.plan;
        let precondition = |condition| Precondition { condition, held: plan.sql.lock.within(&self.id, &self.reach) };
        let Statement { sql, params } = if plan.soft_delete {
            plan.sql.trash(entities.ambient().now(), &self.id, &self.reach)
        } else {
            plan.sql.delete.within(&self.id, &self.reach)
        };
        Write {
            kind: EventKind::Deleted,
            plan: plan.clone(),
            id: Some(self.id().to_owned()),
            returned: Some(self.id().to_owned()),
            call: self.call.clone(),
            fields: Vec::new(),
            sql,
            params,
            links: Vec::new(),
            linked: Vec::new(),
            precondition: self.condition.clone().map(precondition),
        }
    }

    /// The deletions of `nodes`, in their order, each with the record as it last was.
    async fn gone(&self, tx: &Tx, entities: &Entities, nodes: &[Node]) -> Result<Vec<Change>, Error> {
        let mut changes = Vec::with_capacity(nodes.len());
        // Nodes of one entity follow each other.
        for nodes in nodes.chunk_by(|a, b| a.plan == b.plan).flat_map(|nodes| nodes.chunks(CHUNK)) {
            let Some(first) = nodes.first() else { continue };
            let plan = entities.at(first.plan);
            let ids: Vec<Value> = nodes.iter().map(|node| Value::from(&*node.id)).collect();
            let read = records(tx, plan, plan.sql.with_ids(ids.len(), ""), ids).await?;
            let mut read: HashMap<String, Stored> =
                read.into_iter().map(|record| (record.id().to_owned(), record)).collect();
            let records = nodes.iter().filter_map(|node| read.remove(&node.id));
            let ids: Vec<&str> = nodes.iter().map(|node| &*node.id).collect();
            let mut before = before::take(tx, plan, &ids, entities.asks_before(plan)).await?;
            changes.extend(records.map(|record| {
                let before = Before { row: before.remove(record.id()), audience: None };
                self.change(EventKind::Deleted, plan, Vec::new(), record, before)
            }));
        }
        Ok(changes)
    }

    /// Empties the relations of records that stay.
    async fn emptied(&self, transaction: &Transaction<'_>, relations: &[Emptied]) -> Result<Vec<Change>, Error> {
        let (tx, entities) = (transaction.tx, transaction.entities);
        let mut changes: Vec<Change> = Vec::new();
        let mut places: HashMap<(usize, String), usize> = HashMap::new();
        let mut earliest: HashMap<(usize, String), Stored> = HashMap::new();
        for Emptied { incoming, targets, ids } in relations {
            let from = entities.at(incoming.from);
            for ids in ids.chunks(CHUNK) {
                let mut before = self.before_emptied(transaction, from, incoming.field, ids).await?;
                let texts: Vec<&str> = ids.iter().map(|id| &**id).collect();
                for (id, record) in previous::take(tx, entities, from, &texts).await? {
                    earliest.entry((from.index, id)).or_insert(record);
                }
                let now = Value::Time(entities.ambient().now());
                let records = without(tx, from, incoming.field, targets, ids, now).await?;
                for record in records.into_iter().filter(|record| !record.is_deleted()) {
                    // A record that loses two relations gets one change, with the row that the second statement
                    // returned.
                    let place = *places.entry((from.index, record.id().to_owned())).or_insert(changes.len());
                    let before = before.remove(record.id()).unwrap_or_default();
                    let change = self.change(EventKind::Updated, from, vec![incoming.field], record, before);
                    match changes.get_mut(place) {
                        Some(earlier) => {
                            let before = std::mem::take(&mut earlier.before);
                            *earlier = Change { before, ..change };
                        }
                        None => changes.push(change),
                    }
                }
            }
        }
        for change in &mut changes {
            let earlier = earliest.get(&(change.plan.index, change.record.id().to_owned()));
            change.previous = earlier.and_then(|earlier| previous::between(&change.plan, earlier, &change.record));
        }
        Ok(changes)
    }

    /// Who could read records whose relation is set to null. This is determined first, because the related record may
    /// be deleted afterwards.
    async fn before_emptied(
        &self,
        transaction: &Transaction<'_>,
        plan: &Plan,
        field: usize,
        ids: &[String],
    ) -> Result<HashMap<String, Before>, Error> {
        if !before::is_touched(plan, &[field]) {
            return Ok(HashMap::new());
        }
        let (tx, entities) = (transaction.tx, transaction.entities);
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        let mut all = HashMap::new();
        for (id, row) in before::take(tx, plan, &ids, entities.asks_before(plan)).await? {
            let (followers, now) = (entities.followers(), entities.ambient().now());
            let audience = followers.rights(tx, plan, &id, now, transaction.listener_time).await?;
            all.insert(id, Before { row: Some(row), audience });
        }
        Ok(all)
    }

    fn change(&self, kind: EventKind, plan: &Arc<Plan>, fields: Vec<usize>, record: Stored, before: Before) -> Change {
        let record = record.into_whole();
        let (plan, call) = (plan.clone(), self.call.clone());
        Change { kind, plan, record, call, fields, audience: None, before, previous: None }
    }
}

/// A foreign key error here comes from another record that refers to this one.
fn in_use(error: Error) -> Error {
    match error {
        Error::Database(DatabaseError::ForeignKey { .. }) => Error::InUse,
        error => error,
    }
}

/// Empties the field of records or, if it is a relation to many records, takes `targets` out of it. Returns the records as they
/// are then.
async fn without(
    tx: &Tx,
    plan: &Plan,
    field: usize,
    targets: &[Value],
    ids: &[String],
    now: Value,
) -> Result<Vec<Stored>, DatabaseError> {
    let column = &plan.fields.at(field).column;
    let mut params = vec![now];
    let sql = if plan.fields.at(field).links.is_some() {
        let gone = linked::texts(targets);
        linked::remove(tx, plan, field, &gone, ids).await?;
        params.push(Value::Text(gone));
        plan.sql.unlink(column, ids.len(), tx.engine())
    } else {
        plan.sql.empty(column, ids.len())
    };
    params.extend(ids.iter().map(|id| Value::from(&**id)));
    records(tx, plan, sql, params).await
}

async fn records(tx: &Tx, plan: &Plan, sql: Sql, params: Vec<Value>) -> Result<Vec<Stored>, DatabaseError> {
    tx.fold(sql, params, Vec::new(), |records, row| {
        records.push(plan.shape.record(row)?);
        Ok(())
    })
    .await
}
