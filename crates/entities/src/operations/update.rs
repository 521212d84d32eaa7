use std::sync::Arc;

use gatewright_db::{Tx, Value};
use gatewright_events::EventKind;

use super::body::Body;
use super::items::Known;
use super::judge::Judge;
use super::links::Relations;
use super::precondition::{Condition, IfMatch};
use super::rules::{self, Subject};
use super::transaction::{Transaction, within};
use super::write::{self, Precondition, Write};
use super::{files, get, linked, narrow, sequences};
use crate::access::{Action, Reach};
use crate::answers::Written;
use crate::call::Call;
use crate::context::admission::{Admission, admit};
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::context::table::Table;
use crate::encode::{Record, Stored};
use crate::error::Error;
use crate::hooks::{EntityHooks, Values, Writing};
use crate::plan::{Field, Plan, Statement};
use crate::value::body::{Mode, malformed};
use crate::value::operator::Operator;
use crate::value::{BodyError, Draft, Fault, code, merge};

impl Table<'_> {
    /// Changes the fields that a JSON object names. Other fields stay unchanged. A value replaces what is stored, unless the
    /// body is a [merge patch](Body::merge_patch). An empty object changes nothing and
    /// emits no event. A caller who may not read the record gets back its id, its times and the fields they sent
    /// ([`Record::is_part`]).
    ///
    /// Fails with [`Error::NotFound`] for a record that the caller does not reach, [`Error::NotChangeable`] for one
    /// that they may read but not change, [`Error::Precondition`] if `if_match` does not hold, and like
    /// [`create`](Self::create).
    pub async fn update(
        self,
        call: &Call,
        id: &str,
        body: impl Into<Body<'_>>,
        if_match: Option<IfMatch>,
    ) -> Result<Record, Error> {
        let body = body.into();
        let updated = match Update::prepare(self, None, call, id, &body, if_match).await {
            Ok(update) => run(self.entities, &Arc::new(update), id).await,
            Err(error) => Err(error),
        };
        self.reveal_if_readable(call, id, updated).await
    }
}

async fn run(entities: &Entities, update: &Arc<Update>, id: &str) -> Result<Record, Error> {
    let is_simple = update.invalid.is_none() && !update.plan.takes_steps() && !update.depends_on_stored();
    if !is_simple || update.call.keeping.is_some() || entities.hooks_of(&update.plan).is_some() {
        let (share, update) = (share(&update.call), update.clone());
        return within(entities, share, async move |transaction: &Transaction<'_>| {
            let record = update.perform(transaction).await?;
            let (keeping, written) = (update.call.keeping.as_ref(), Written::Record(&record, false));
            transaction.keep(keeping, &update.plan, &written).await?;
            Ok(record)
        })
        .await;
    }
    if update.is_empty() {
        let record = unchanged(update, entities, id).await?;
        return Ok(update.shown(entities, record));
    }
    let written = match update.write(entities, &update.values, &[], None) {
        Ok(write) => write::run(entities, write).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(record) => record.ok_or(Error::NotFound).map(|record| update.shown(entities, record)),
        Err(error) => {
            Err(update.relations(entities, None, None).explain(&update.values, Some(&update.id), error).await)
        }
    }
}

/// A change to a record. Its body is parsed and its caller admitted.
#[derive(Clone)]
pub(super) struct Update {
    plan: Arc<Plan>,
    call: Call,
    admission: Admission,
    id: String,
    values: Vec<Option<Value>>,
    /// The changes of fields that depend on what is stored.
    operators: Vec<(usize, Operator)>,
    /// Whether objects for JSON fields are merged into what is stored.
    is_merge_patch: bool,
    /// The errors of the body. They are returned only if the record exists and may be changed.
    invalid: Option<BodyError>,
    condition: Option<Condition>,
}

impl Update {
    /// Inside a transaction, `tx` sees the records that it has created.
    pub(super) async fn prepare(
        table: Table<'_>,
        tx: Option<&Tx>,
        call: &Call,
        id: &str,
        body: &Body<'_>,
        if_match: Option<IfMatch>,
    ) -> Result<Self, Error> {
        let admission = admit(table, call, Action::Update).await?;
        let relations = Relations { tx, ..Relations::outside(table, call, &admission) };
        let condition = if_match.map(|if_match| Condition::new(table, call, &admission, if_match));
        let is_merge_patch = body.is_merge_patch();
        Ok(Self { is_merge_patch, condition, ..Self::read(relations, &admission, id, body).await? })
    }

    /// The same, without a condition, for a caller who was already admitted.
    pub(super) async fn read(
        relations: Relations<'_>,
        admission: &Admission,
        id: &str,
        body: &[u8],
    ) -> Result<Self, Error> {
        let Relations { table: Table { plan, .. }, call, .. } = relations;
        let id = get::known(id)?.into_owned();
        let turn = relations.turn_to_read(body).await;
        let read = Draft::read(&plan.fields, admission.rights.of(plan.index), body, Mode::Update);
        drop(turn);
        let (values, operators, invalid) = match read {
            Ok(Draft { values, operators, .. }) => (values, operators, None),
            Err(mut invalid) => {
                let (values, operators) = (invalid.values.clone(), std::mem::take(&mut invalid.operators));
                // Ids that the record has already may stay, and it is not read yet.
                for (value, _) in
                    invalid.values.iter_mut().zip(plan.fields.iter()).filter(|(_, field)| field.links.is_some())
                {
                    *value = None;
                }
                match relations.complete(invalid).await {
                    error @ BodyError::Malformed(_) => return Err(error.into()),
                    error => (values, operators, Some(error)),
                }
            }
        };
        let (plan, call, admission) = (plan.clone(), call.clone(), admission.clone());
        Ok(Self { plan, call, admission, id, values, operators, is_merge_patch: false, invalid, condition: None })
    }

    /// The id of the record.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// How far its caller reaches.
    pub(super) fn reach(&self) -> &Reach {
        &self.admission.reach
    }

    /// The same change of another record.
    pub(super) fn of(&self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self.clone() }
    }

    /// The same change under a condition.
    pub(super) fn under(self, condition: Option<Condition>) -> Self {
        Self { condition, ..self }
    }

    /// With the ids of earlier items in the place of their placeholders.
    pub(super) fn knowing(&self, known: &Known) -> Self {
        let id = known.id(&self.id).to_owned();
        let operator = |(index, operator): &(usize, Operator)| (*index, known.operator(&self.plan, *index, operator));
        let operators = self.operators.iter().map(operator).collect();
        Self { id, values: known.values(&self.plan, &self.values), operators, ..self.clone() }
    }

    /// Changes the record, with its hooks, inside a transaction.
    pub(super) async fn perform(&self, transaction: &Transaction<'_>) -> Result<Record, Error> {
        let (entities, tx) = (transaction.entities, transaction.tx);
        let hooks = entities.hooks_of(&self.plan);
        let (mut values, mut set) = (self.values.clone(), Vec::new());
        let (rule, identity) = (self.admission.rule.as_ref(), &self.call.identity);
        let ruled = self.plan.takes_steps();
        let mut stored = None;
        if hooks.is_some() || self.is_empty() || ruled || self.depends_on_stored() || self.invalid.is_some() {
            transaction.take_memory(&self.plan, self.id(), &self.call).await?;
            let Statement { sql, params } = self.plan.sql.lock.within(&self.id, &self.admission.reach);
            let held = write::one(tx, &self.plan, &sql, params).await?.ok_or(Error::NotFound)?;
            let before = Subject::Stored(held.id());
            rules::check(tx, &self.plan, identity, Action::Update, rule, before).await?;
            if let Some(condition) = &self.condition {
                condition.check(&held)?;
            }
            let now = Value::Time(entities.ambient().now());
            let judge = self.judge(transaction);
            let mut invalid = self.invalid.clone();
            let is_completed = hooks.is_some_and(EntityHooks::completes);
            if (invalid.is_none() || is_completed) && self.depends_on_stored() {
                self.change(&held, &mut values)?;
            }
            if let Some(hooks) = hooks.filter(|_| invalid.is_none() || is_completed) {
                let mut open = Values::new(&self.plan, values);
                let writing = Writing { tx, transaction, call: &self.call, plan: &self.plan };
                hooks.before_update(writing, held.whole(), &mut open).await?;
                invalid = open.left_of(invalid.as_ref());
                set = if is_completed { open.set_by_hooks() } else { Vec::new() };
                values = open.into_inner();
            }
            if let Some(invalid) = &invalid {
                let subject = Subject::Changed(held.id(), &values, &now);
                return Err(judge.valid(subject, Some(invalid)).await.err().unwrap_or(Error::NotFound));
            }
            if values.iter().all(Option::is_none) {
                return self.narrowed(transaction, held).await;
            }
            if files::are_given(&self.plan, &values) {
                let readable = self.admission.rights.of(self.plan.index);
                let (plan, call, record) = (&*self.plan, &self.call, held.id());
                let receiver = files::Receiver { plan, call, readable, record, held: Some(&held) };
                receiver.attach(transaction, &mut values).await?;
            }
            sequences::number_again(tx, &self.plan, held.id(), &mut values, &now).await?;
            let after = Subject::Changed(held.id(), &values, &now);
            judge.valid(after, None).await?;
            judge.changed_fields(after, |index| self.sets(index)).await?;
            judge.after_update(after).await?;
            stored = Some(held);
        }
        let written = match self.write(entities, &values, &set, stored.as_ref()) {
            Ok(write) => write::perform(transaction, &write).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(record) => {
                let record = record.ok_or(Error::NotFound)?;
                sequences::unmark(tx, &self.plan, record.id(), &values).await?;
                self.narrowed(transaction, record).await
            }
            Err(error) => {
                let relations = self.relations(entities, Some(transaction.tx), stored.as_ref());
                Err(relations.explain(&values, Some(&self.id), error).await)
            }
        }
    }

    /// The part of the changed record that its caller may see, including access rules.
    async fn narrowed(&self, transaction: &Transaction<'_>, record: Stored) -> Result<Record, Error> {
        narrow::written(transaction, self.table(transaction.entities), &self.call, &self.admission, record, self.sent())
            .await
    }

    /// The part of the changed record that its caller may see, on entities without access rules.
    fn shown(&self, entities: &Entities, record: Stored) -> Record {
        narrow::narrowed(self.table(entities), &self.call, &self.admission, record, self.sent())
    }

    /// The keys of the fields whose stored values are those that were sent. What results from an operator or a merge
    /// depends on what was stored, which the writer may not be allowed to read.
    fn sent(&self) -> impl Iterator<Item = &str> {
        let is_sent = |value: &Value| !(self.is_merge_patch && merge::is_partial(value));
        self.plan.given(&self.values).filter(move |(_, value)| is_sent(value)).map(|(field, _)| &*field.key)
    }

    /// Whether the change depends on the stored record.
    fn depends_on_stored(&self) -> bool {
        let sets_links = || self.plan.given(&self.values).any(|(field, _)| field.links.is_some());
        !self.operators.is_empty()
            || sets_links()
            || files::are_given(&self.plan, &self.values)
            || (self.is_merge_patch && self.values.iter().flatten().any(merge::is_partial))
    }

    /// Replaces each partial value by the whole value after the merge, and adds those that operators result in. `held` is
    /// locked for the transaction.
    fn change(&self, held: &Stored, values: &mut [Option<Value>]) -> Result<(), Error> {
        let stored = held.fields().map_err(|error| malformed(&error))?;
        let stored = |field: &Field| stored.get(&*field.key).map(|stored| stored.get());
        let readable = self.admission.rights.of(self.plan.index);
        let mut errors = Vec::new();
        let mut set = |field: &Field, place: &mut Option<Value>, changed: Result<Value, Fault>| match changed {
            Ok(changed) => *place = Some(changed),
            Err(fault) => errors.push(fault.at(&field.key)),
        };
        for (field, place) in self.plan.fields.iter().zip(&mut *values).filter(|_| self.is_merge_patch) {
            if let Some(Value::Json(patch)) = place.clone().as_ref().filter(|value| merge::is_partial(value)) {
                // Whether the merged value fits would reveal its size to a caller who may not read it.
                let merged = if readable.has_key(&field.key) {
                    merge::merged(stored(field), patch)
                } else {
                    Err(Fault::new(code::TYPE, "takes a whole value"))
                };
                set(field, place, merged);
            }
        }
        for (index, operator) in &self.operators {
            let field = self.plan.fields.at(*index);
            set(field, &mut values[*index], operator.apply(&field.rule, stored(field)));
        }
        if errors.is_empty() { Ok(()) } else { Err(BodyError::Invalid(errors).into()) }
    }

    fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none) && self.operators.is_empty()
    }

    /// `held` is the record as it is stored, which a change of a relation to many records needs. `by_hooks` are the fields that
    /// hooks have set: they may name any record.
    fn write(
        &self,
        entities: &Entities,
        values: &[Option<Value>],
        by_hooks: &[bool],
        held: Option<&Stored>,
    ) -> Result<Write, Error> {
        let plan = &self.plan;
        let given = plan.given(values).map(|(field, value)| (&*field.column, value.clone()));
        let set = given.chain([("updated_at", Value::Time(entities.ambient().now()))]);
        let Statement { sql, params } = plan.sql.update(set, &self.id, &self.admission.reach);
        Ok(Write {
            kind: EventKind::Updated,
            plan: plan.clone(),
            id: Some(self.id().to_owned()),
            returned: Some(self.id().to_owned()),
            call: self.call.clone(),
            fields: write::fields(values),
            sql,
            params,
            links: self.relations(entities, None, held).links_beside(values, by_hooks, &self.values)?,
            linked: linked::linked(plan, values, EventKind::Updated),
            precondition: self.condition.clone().map(|condition| Precondition {
                condition,
                held: plan.sql.lock.within(&self.id, &self.admission.reach),
            }),
        })
    }

    /// Whether the body names the field at that position.
    fn sets(&self, index: usize) -> bool {
        self.values[index].is_some() || self.operators.iter().any(|(of, _)| *of == index)
    }

    fn judge<'a>(&'a self, transaction: &'a Transaction<'_>) -> Judge<'a> {
        let (tx, entities) = (transaction.tx, transaction.entities);
        Judge { tx, entities, plan: &self.plan, call: &self.call, admission: &self.admission }
    }

    fn relations<'a>(&'a self, entities: &'a Entities, tx: Option<&'a Tx>, held: Option<&'a Stored>) -> Relations<'a> {
        Relations { tx, held, ..Relations::outside(self.table(entities), &self.call, &self.admission) }
    }

    fn table<'a>(&'a self, entities: &'a Entities) -> Table<'a> {
        Table { entities, plan: &self.plan }
    }
}

/// A body without fields: returns the record unchanged.
async fn unchanged(update: &Update, entities: &Entities, id: &str) -> Result<Stored, Error> {
    let record = get::fetch(update.table(entities), &update.call, &update.admission.reach, id).await?;
    if let Some(condition) = &update.condition {
        condition.check(&record)?;
    }
    Ok(record)
}
