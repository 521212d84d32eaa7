use std::sync::Arc;

use gatewright_base::Subject;
use gatewright_db::{Tx, Value};
use gatewright_events::EventKind;

use super::body::Body;
use super::links::{self, Relations};
use super::transaction::{Transaction, within};
use super::write::{self, Write};
use super::{narrow, rules};
use crate::access::{Action, Reach};
use crate::before;
use crate::call::Call;
use crate::condition::Bound;
use crate::context::admission::{Admission, admit};
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::context::table::Table;
use crate::encode::Record;
use crate::error::Error;
use crate::hooks::{Values, Writing};
use crate::plan::Plan;
use crate::value::body::{InvalidBody, Mode};
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
        if entities.hooks_of(self.plan).is_some() || self.plan.row_rules.iter().next().is_some() {
            let creating = create.clone();
            let perform = async move |transaction: &Transaction<'_>| creating.perform(transaction).await;
            return Box::pin(within(entities, share(call), perform)).await;
        }
        let written = match create.write(entities, &create.values) {
            Ok(write) => write::run(entities, write).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(Some(record)) => Ok(create.shown(entities, record)),
            // An INSERT that returns no row inserted none.
            Ok(None) => Err(Error::NotFound),
            Err(error) => Err(create.relations(entities, None).explain(&create.values, error).await),
        }
    }
}

/// A record to be created. Its body is parsed and its caller admitted.
pub(super) struct Create {
    plan: Arc<Plan>,
    call: Call,
    admission: Admission,
    values: Vec<Option<Value>>,
    /// Which of them the body names.
    named: Vec<bool>,
    /// The errors of the body, if the access rule does not depend on the invalid fields. They are returned only if the
    /// rule holds.
    invalid: Option<BodyError>,
}

impl Create {
    /// Inside a transaction, `tx` sees the records that it has created.
    pub(super) async fn prepare(table: Table<'_>, tx: Option<&Tx>, call: &Call, body: &[u8]) -> Result<Self, Error> {
        let admission = admit(table, call, Action::Create).await?;
        Self::read(Relations { table, tx, call, standing: &admission.standing }, &admission, body).await
    }

    /// The same for a caller who was already admitted.
    pub(super) async fn read(relations: Relations<'_>, admission: &Admission, body: &[u8]) -> Result<Self, Error> {
        let Relations { table: Table { plan, .. }, call, .. } = relations;
        let turn = relations.turn_to_read(body).await;
        let read = Draft::read(&plan.fields, body, Mode::Create);
        drop(turn);
        let (Draft { mut values, named }, invalid) = match read {
            Ok(draft) => (draft, None),
            Err(InvalidBody { error, values }) => {
                let draft = Draft { values: values.clone(), named: vec![false; plan.fields.len()] };
                let is_decided = admission.rule.as_ref().is_some_and(|rule| is_decided(plan, rule, &error));
                let error = relations.complete(InvalidBody { error, values }).await;
                if !is_decided {
                    return Err(error.into());
                }
                (draft, Some(error))
            }
        };
        stamp(plan, call, &admission.reach, &mut values)?;
        let (plan, call, admission) = (plan.clone(), call.clone(), admission.clone());
        Ok(Self { plan, call, admission, values, named, invalid })
    }

    /// Makes the record, with its hooks, inside a transaction.
    pub(super) async fn perform(&self, transaction: &Transaction<'_>) -> Result<Record, Error> {
        let entities = transaction.entities;
        let mut values = self.values.clone();
        let (rule, identity) = (self.admission.rule.as_ref(), &self.call.identity);
        if let Some(invalid) = &self.invalid {
            let row = row(entities, &values);
            let created = rules::Subject::Created(&row);
            rules::check(transaction.tx, &self.plan, identity, Action::Create, rule, created).await?;
            return Err(invalid.clone().into());
        }
        if let Some(hooks) = entities.hooks_of(&self.plan) {
            let mut open = Values::new(&self.plan, values);
            let writing = Writing { tx: transaction.tx, call: &self.call, plan: &self.plan };
            hooks.before_create(writing, &mut open).await?;
            values = open.complete()?;
        }
        let row = row(entities, &values);
        rules::check(transaction.tx, &self.plan, identity, Action::Create, rule, rules::Subject::Created(&row)).await?;
        let written = match self.write(entities, &values) {
            Ok(write) => write::perform(transaction, &Write { params: row, ..write }).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(record) => {
                let record = record.ok_or(Error::NotFound)?;
                let table = self.table(entities);
                narrow::written(transaction, table, &self.call, &self.admission.standing, record, self.sent()).await
            }
            Err(error) => Err(self.relations(entities, Some(transaction.tx)).explain(&values, error).await),
        }
    }

    /// The part of the record that its caller may see, on entities without access rules.
    fn shown(&self, entities: &Entities, record: Record) -> Record {
        narrow::narrowed(self.table(entities), &self.call, &self.admission.standing, record, self.sent())
    }

    /// The keys of the fields that the body names.
    fn sent(&self) -> impl Iterator<Item = &str> {
        let named = self.plan.fields.iter().zip(&self.named).filter(|(_, named)| **named);
        named.map(|(field, _)| &*field.key)
    }

    fn write(&self, entities: &Entities, values: &[Option<Value>]) -> Result<Write, Error> {
        Ok(Write {
            id: None,
            kind: EventKind::Created,
            plan: self.plan.clone(),
            call: self.call.clone(),
            fields: write::fields(values),
            sql: self.plan.sql.insert.clone(),
            params: row(entities, values),
            links: links::links(self.table(entities), &self.call, &self.admission.standing, values)?,
            precondition: None,
        })
    }

    fn relations<'a>(&'a self, entities: &'a Entities, tx: Option<&'a Tx>) -> Relations<'a> {
        Relations { table: self.table(entities), tx, call: &self.call, standing: &self.admission.standing }
    }

    fn table<'a>(&'a self, entities: &'a Entities) -> Table<'a> {
        Table { entities, plan: &self.plan }
    }
}

/// Whether a rule has the same result for each valid body instead of this invalid one: no invalid field is part of it.
fn is_decided(plan: &Plan, rule: &Bound, error: &BodyError) -> bool {
    let BodyError::Invalid(errors) = error else { return false };
    let read = before::keys_of(plan, &rule.rule.resolved.condition);
    !errors.iter().any(|error| read.contains(&&*error.field))
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

/// The parameters of the INSERT: id, every field, the two times.
fn row(entities: &Entities, values: &[Option<Value>]) -> Vec<Value> {
    let now = entities.ambient().now();
    let mut params = Vec::with_capacity(values.len() + 3);
    params.push(Value::Text(entities.next_id()));
    params.extend(values.iter().map(|value| value.clone().unwrap_or(Value::Null)));
    params.extend([Value::Time(now), Value::Time(now)]);
    params
}
