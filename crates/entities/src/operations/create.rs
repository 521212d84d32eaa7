use std::sync::Arc;

use gatewright_base::Subject;
use gatewright_db::{Tx, Value};
use gatewright_events::EventKind;

use super::body::Body;
use super::items::Known;
use super::judge::Judge;
use super::links::Relations;
use super::transaction::{Transaction, within};
use super::write::{self, Write};
use super::{files, linked, narrow, numbered, rules, sequences, words};
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
use crate::plan::Plan;
use crate::value::body::{Mode, missing};
use crate::value::{BodyError, Draft};

impl Table<'_> {
    /// Creates a record from a JSON object. A caller who may not read the record gets back its id, its times and the
    /// fields they sent ([`Record::is_part`]).
    ///
    /// Fails with [`Error::Refused`] if the caller is not allowed, [`Error::Rule`] if an access rule does not hold for
    /// the new record, [`Error::Body`] if fields are invalid or a relation names a record that the caller may not read,
    /// [`Error::Taken`] if a unique value is taken, and with the errors of hooks.
    pub async fn create(self, call: &Call, body: impl Into<Body<'_>>) -> Result<Record, Error> {
        let body = body.into();
        let create = Arc::new(Create::prepare(self, None, call, &body).await?);
        let entities = self.entities;
        let is_kept = call.keeping.is_some();
        let brings_files = files::are_given(self.plan, &create.values);
        let is_plain = !is_kept && !brings_files && entities.hooks_of(self.plan).is_none() && !self.plan.has_rules();
        if is_plain
            && !self.plan.sequences.is_empty()
            && let Some(record) = create.numbered(entities).await?
        {
            return Ok(record);
        }
        if !is_plain || self.plan.takes_steps() {
            let creating = create.clone();
            let perform = async move |transaction: &Transaction<'_>| {
                let record = creating.perform(transaction).await?;
                let (keeping, written) = (creating.call.keeping.as_ref(), Written::Record(&record, true));
                transaction.keep(keeping, &creating.plan, &written).await?;
                Ok(record)
            };
            return Box::pin(within(entities, share(call), perform)).await;
        }
        let written = match create.write(entities, &create.values, &[]) {
            Ok(write) => write::run(entities, write).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(Some(record)) => Ok(create.shown(entities, record)),
            // An INSERT that returns no row inserted none.
            Ok(None) => Err(Error::NotFound),
            Err(error) => Err(create.refused(entities, None, &create.values, error).await),
        }
    }
}

/// A record to be created. Its body is parsed and its caller admitted.
#[derive(Clone)]
pub(super) struct Create {
    plan: Arc<Plan>,
    call: Call,
    admission: Admission,
    values: Vec<Option<Value>>,
    /// Which of them the body names.
    named: Vec<bool>,
    /// What the fields whose defaults depend on the request would have without the body.
    words: Vec<(usize, Value)>,
    /// The id that the caller chose.
    pub(super) id: Option<String>,
    /// The errors of the body, where checks may add others.
    invalid: Option<BodyError>,
}

impl Create {
    /// Inside a transaction, `tx` sees the records that it has created.
    pub(super) async fn prepare(table: Table<'_>, tx: Option<&Tx>, call: &Call, body: &[u8]) -> Result<Self, Error> {
        let admission = admit(table, call, Action::Create).await?;
        Self::read(Relations { tx, ..Relations::outside(table, call, &admission) }, &admission, body, Mode::Create)
            .await
    }

    /// The same for a caller who was already admitted. `mode` is that of a create or of an upsert.
    pub(super) async fn read(
        relations: Relations<'_>,
        admission: &Admission,
        body: &[u8],
        mode: Mode,
    ) -> Result<Self, Error> {
        let Relations { table: Table { plan, entities }, call, .. } = relations;
        let is_completed = entities.hooks_of(plan).is_some_and(EntityHooks::completes);
        let turn = relations.turn_to_read(body).await;
        let read = Draft::read(&plan.fields, admission.rights.of(plan.index), body, mode);
        drop(turn);
        let (mut values, named, id, mut invalid) = match read {
            Ok(Draft { values, named, id, .. }) => (values, named, id, None),
            Err(invalid) => {
                let (values, named, id) =
                    (invalid.values.clone(), invalid.named.clone(), invalid.id.clone().map(String::from));
                let error = relations.complete(invalid).await;
                // Whom the rule refuses without a caller is asked to sign in, whatever the body.
                let may_be_refused = admission.rule.is_some() && call.identity.principal().is_none();
                let is_final = plan.write_rules.checks.is_empty() && !may_be_refused && !is_completed;
                if is_final || matches!(error, BodyError::Malformed(_)) {
                    return Err(error.into());
                }
                (values, named, id, Some(error))
            }
        };
        let readable = admission.rights.of(plan.index);
        let words = words::values(relations.table.entities, plan, call, admission);
        for (index, value) in words.iter().filter(|(index, _)| !named[*index]) {
            let field = plan.fields.at(*index);
            if field.required && *value == Value::Null && invalid.is_none() {
                let error = BodyError::Invalid(vec![missing(field, readable.has(*index))]);
                if !is_completed {
                    return Err(error.into());
                }
                invalid = Some(error);
            }
            values[*index] = Some(value.clone());
        }
        stamp(plan, call, &admission.reach, &mut values)?;
        let (plan, call, admission) = (plan.clone(), call.clone(), admission.clone());
        Ok(Self { plan, call, admission, values, named, words, id, invalid })
    }

    /// The id of the record, which is decided now if the caller has chosen none.
    pub(super) fn id_or(&mut self, next: impl FnOnce() -> String) -> String {
        self.id.get_or_insert_with(next).clone()
    }

    /// With the ids of earlier items in the place of their placeholders.
    pub(super) fn knowing(&self, known: &Known) -> Self {
        Self { values: known.values(&self.plan, &self.values), ..self.clone() }
    }

    /// Makes the record, with its hooks, inside a transaction.
    pub(super) async fn perform(&self, transaction: &Transaction<'_>) -> Result<Record, Error> {
        let entities = transaction.entities;
        let (mut values, mut invalid, mut set) = (self.values.clone(), self.invalid.clone(), Vec::new());
        if let Some(hooks) = entities.hooks_of(&self.plan).filter(|hooks| invalid.is_none() || hooks.completes()) {
            if hooks.leaves_server(Action::Create) {
                let (rule, row) = (self.admission.rule.as_ref(), self.row(entities, &values));
                let subject = rules::Subject::Created(&row);
                rules::check(transaction.tx, &self.plan, &self.call.identity, Action::Create, rule, subject).await?;
            }
            let mut open = Values::new(&self.plan, values);
            let writing = Writing { tx: transaction.tx, transaction, call: &self.call, plan: &self.plan };
            hooks.before_create(writing, &mut open).await?;
            invalid = open.left_of(invalid.as_ref());
            set = if hooks.completes() { open.set_by_hooks() } else { Vec::new() };
            values = if invalid.is_none() { open.complete()? } else { open.into_inner() };
        }
        if invalid.is_none() {
            sequences::number(transaction.tx, &self.plan, &mut values).await?;
        }
        let mut row = self.row(entities, &values);
        if self.invalid.is_none() && files::are_given(&self.plan, &values) {
            self.attach_files(transaction, &mut row, &mut values).await?;
        }
        let subject = rules::Subject::Created(&row);
        let judge = self.judge(transaction);
        let (rule, identity) = (self.admission.rule.as_ref(), &self.call.identity);
        if invalid.is_some() && identity.principal().is_none() {
            rules::check(transaction.tx, &self.plan, identity, Action::Create, rule, subject).await?;
        }
        judge.valid(subject, invalid.as_ref()).await?;
        let readable = self.admission.rights.of(self.plan.index);
        judge.fields(subject, |index| self.named[index] && !(self.is_default(index) && readable.has(index))).await?;
        rules::check(transaction.tx, &self.plan, identity, Action::Create, rule, subject).await?;
        let written = match self.write(entities, &values, &set) {
            Ok(write) => write::perform(transaction, &Write { params: self.plan.sql.inserting(row), ..write }).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(record) => {
                let record = record.ok_or(Error::NotFound)?;
                let table = self.table(entities);
                narrow::written(transaction, table, &self.call, &self.admission, record, self.sent()).await
            }
            Err(error) => Err(self.refused(entities, Some(transaction.tx), &values, error).await),
        }
    }

    /// Attaches the files of the record, whose row is `row`.
    async fn attach_files(
        &self,
        transaction: &Transaction<'_>,
        row: &mut [Value],
        values: &mut [Option<Value>],
    ) -> Result<(), Error> {
        let Some((Value::Text(id), fields)) = row.split_first_mut() else { return Ok(()) };
        let readable = self.admission.rights.of(self.plan.index);
        let receiver = files::Receiver { plan: &self.plan, call: &self.call, readable, record: id, held: None };
        receiver.attach(transaction, values).await?;
        for (field, value) in fields.iter_mut().zip(values) {
            *field = value.clone().unwrap_or(Value::Null);
        }
        Ok(())
    }

    /// Makes the record in one statement that gives it its number, if that is possible.
    async fn numbered(&self, entities: &Entities) -> Result<Option<Record>, Error> {
        // A create that takes several statements gets its id there.
        if self.invalid.is_some() || !numbered::is_possible(entities, &self.plan) {
            return Ok(None);
        }
        let write = self.write(entities, &self.values, &[])?;
        if !write.is_alone(entities) {
            return Ok(None);
        }
        match numbered::create(entities, &write).await {
            Ok(record) => Ok(record.map(|record| self.shown(entities, record))),
            Err(error) => Err(self.refused(entities, None, &self.values, error).await),
        }
    }

    /// The part of the record that its caller may see, on entities without access rules.
    fn shown(&self, entities: &Entities, record: Stored) -> Record {
        narrow::narrowed(self.table(entities), &self.call, &self.admission, record, self.sent())
    }

    /// The keys of the fields that the body names.
    fn sent(&self) -> impl Iterator<Item = &str> {
        let named = self.plan.fields.iter().zip(&self.named).filter(|(_, named)| **named);
        named.map(|(field, _)| &*field.key)
    }

    /// `set` are the fields that hooks have set: they may name any record.
    fn write(&self, entities: &Entities, values: &[Option<Value>], set: &[bool]) -> Result<Write, Error> {
        Ok(Write {
            id: None,
            returned: None,
            kind: EventKind::Created,
            plan: self.plan.clone(),
            call: self.call.clone(),
            fields: write::fields(values),
            sql: self.plan.sql.insert.clone(),
            params: self.plan.sql.inserting(self.row(entities, values)),
            links: self.relations(entities, None).links_beside(values, set, &self.values)?,
            linked: linked::linked(&self.plan, values, EventKind::Created),
            precondition: None,
        })
    }

    /// Whether the body gives the field at that position what it would have without it.
    fn is_default(&self, index: usize) -> bool {
        let word = self.words.iter().find(|(of, _)| *of == index).map(|(_, value)| value);
        let default = word.or(self.plan.fields.at(index).default.as_ref());
        self.values[index].as_ref() == Some(default.unwrap_or(&Value::Null))
    }

    fn judge<'a>(&'a self, transaction: &'a Transaction<'_>) -> Judge<'a> {
        let (tx, entities) = (transaction.tx, transaction.entities);
        Judge { tx, entities, plan: &self.plan, call: &self.call, admission: &self.admission }
    }

    /// The reason why the database refused the record. That its id is taken comes before other values that are.
    async fn refused(&self, entities: &Entities, tx: Option<&Tx>, values: &[Option<Value>], error: Error) -> Error {
        let relations = self.relations(entities, tx);
        if let (Some(id), Error::Taken(_)) = (&self.id, &error)
            && Box::pin(relations.is_any(id)).await
        {
            return Error::IdTaken;
        }
        relations.explain(values, None, error).await
    }

    /// The parameters of the INSERT: id, every field, the two times.
    fn row(&self, entities: &Entities, values: &[Option<Value>]) -> Vec<Value> {
        let now = entities.ambient().now();
        let mut params = Vec::with_capacity(values.len() + 3);
        params.push(Value::Text(self.id.clone().unwrap_or_else(|| entities.next_id())));
        params.extend(values.iter().map(|value| value.clone().unwrap_or(Value::Null)));
        params.extend([Value::Time(now), Value::Time(now)]);
        params
    }

    fn relations<'a>(&'a self, entities: &'a Entities, tx: Option<&'a Tx>) -> Relations<'a> {
        Relations { tx, ..Relations::outside(self.table(entities), &self.call, &self.admission) }
    }

    fn table<'a>(&'a self, entities: &'a Entities) -> Table<'a> {
        Table { entities, plan: &self.plan }
    }
}

/// Puts the tenant and the caller into their fields.
fn stamp(plan: &Plan, call: &Call, reach: &Reach, values: &mut [Option<Value>]) -> Result<(), Error> {
    if let (Some(index), Some(tenant)) = (plan.tenant, reach.tenant()) {
        values[index] = Some(Value::from(tenant.as_str()));
    }
    let (Some(index), Some(owner)) = (plan.owner, reach.owner()) else { return Ok(()) };
    let is_service =
        call.identity.principal().is_some_and(|principal| matches!(principal.subject, Subject::Service(_)));
    if is_service && plan.fields.at(index).relation.is_some() {
        return Err(Error::ServiceOwner);
    }
    values[index] = Some(Value::from(owner));
    Ok(())
}
