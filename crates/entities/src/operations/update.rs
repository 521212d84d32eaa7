use std::sync::Arc;

use gatewright_db::{Tx, Value};
use gatewright_events::EventKind;

use super::body::Body;
use super::links::{self, Relations};
use super::precondition::{Condition, IfMatch};
use super::rules::{self, Subject};
use super::transaction::{Transaction, within};
use super::write::{self, Precondition, Write};
use super::{get, narrow};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::{Admission, admit};
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::context::table::Table;
use crate::encode::Record;
use crate::error::Error;
use crate::hooks::{Values, Writing};
use crate::plan::Plan;
use crate::value::body::Mode;
use crate::value::{BodyError, Draft};

impl Table<'_> {
    /// Changes the fields that a JSON object names. Other fields stay unchanged. An empty object changes nothing and
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
    let is_simple = update.invalid.is_none() && update.plan.row_rules.iter().next().is_none();
    if !is_simple || entities.hooks_of(&update.plan).is_some() {
        let (share, update) = (share(&update.call), update.clone());
        return within(entities, share, async move |transaction: &Transaction<'_>| update.perform(transaction).await)
            .await;
    }
    if update.is_empty() {
        let record = unchanged(update, entities, id).await?;
        return Ok(update.shown(entities, record));
    }
    let written = match update.write(entities, &update.values) {
        Ok(write) => write::run(entities, write).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(record) => record.ok_or(Error::NotFound).map(|record| update.shown(entities, record)),
        Err(error) => Err(update.relations(entities, None).explain(&update.values, error).await),
    }
}

/// A change to a record. Its body is parsed and its caller admitted.
pub(super) struct Update {
    plan: Arc<Plan>,
    call: Call,
    admission: Admission,
    /// The parameters that name the record within the reach.
    key: Vec<Value>,
    values: Vec<Option<Value>>,
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
        body: &[u8],
        if_match: Option<IfMatch>,
    ) -> Result<Self, Error> {
        let admission = admit(table, call, Action::Update).await?;
        let relations = Relations { table, tx, call, standing: &admission.standing };
        let condition = if_match.map(|if_match| Condition::new(table, call, &admission.standing, if_match));
        Ok(Self { condition, ..Self::read(relations, &admission, id, body).await? })
    }

    /// The same, without a condition, for a caller who was already admitted.
    pub(super) async fn read(
        relations: Relations<'_>,
        admission: &Admission,
        id: &str,
        body: &[u8],
    ) -> Result<Self, Error> {
        let Relations { table: Table { plan, .. }, call, .. } = relations;
        let key = get::key(id, &admission.reach)?;
        let turn = relations.turn_to_read(body).await;
        let read = Draft::read(&plan.fields, body, Mode::Update);
        drop(turn);
        let (values, invalid) = match read {
            Ok(Draft { values, .. }) => (values, None),
            Err(invalid) => match relations.complete(invalid).await {
                error @ BodyError::Malformed(_) => return Err(error.into()),
                error => (vec![None; plan.fields.len()], Some(error)),
            },
        };
        let (plan, call, admission) = (plan.clone(), call.clone(), admission.clone());
        Ok(Self { plan, call, admission, key, values, invalid, condition: None })
    }

    /// The id of the record.
    pub(super) fn id(&self) -> &str {
        match self.key.first() {
            Some(Value::Text(id)) => id,
            _ => "",
        }
    }

    /// Changes the record, with its hooks, inside a transaction.
    pub(super) async fn perform(&self, transaction: &Transaction<'_>) -> Result<Record, Error> {
        let (entities, tx) = (transaction.entities, transaction.tx);
        let hooks = entities.hooks_of(&self.plan);
        let mut values = self.values.clone();
        let (rule, identity) = (self.admission.rule.as_ref(), &self.call.identity);
        let ruled = self.plan.row_rules.iter().next().is_some();
        if hooks.is_some() || self.is_empty() || ruled {
            let held = self.plan.sql.lock.within(&self.admission.reach);
            let held = write::one(tx, &self.plan, &held, self.key.clone()).await?.ok_or(Error::NotFound)?;
            let before = Subject::Stored(held.id());
            rules::check(tx, &self.plan, identity, Action::Update, rule, before).await?;
            if let Some(condition) = &self.condition {
                condition.check(&held)?;
            }
            if let Some(invalid) = &self.invalid {
                return Err(invalid.clone().into());
            }
            if let Some(hooks) = hooks {
                let mut open = Values::new(&self.plan, values);
                let writing = Writing { tx, call: &self.call, plan: &self.plan };
                hooks.before_update(writing, &held, &mut open).await?;
                values = open.into_inner();
            }
            if values.iter().all(Option::is_none) {
                return self.narrowed(transaction, held).await;
            }
            let now = Value::Time(entities.ambient().now());
            let after = Subject::Changed(held.id(), &values, &now);
            rules::check(tx, &self.plan, identity, Action::Update, rule, after).await?;
        }
        let written = match self.write(entities, &values) {
            Ok(write) => write::perform(transaction, &write).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(record) => self.narrowed(transaction, record.ok_or(Error::NotFound)?).await,
            Err(error) => Err(self.relations(entities, Some(transaction.tx)).explain(&values, error).await),
        }
    }

    /// The part of the changed record that its caller may see, including access rules.
    async fn narrowed(&self, transaction: &Transaction<'_>, record: Record) -> Result<Record, Error> {
        let sent = self.plan.given(&self.values).map(|(field, _)| &*field.key);
        narrow::written(
            transaction,
            self.table(transaction.entities),
            &self.call,
            &self.admission.standing,
            record,
            sent,
        )
        .await
    }

    /// The part of the changed record that its caller may see, on entities without access rules.
    fn shown(&self, entities: &Entities, record: Record) -> Record {
        let sent = self.plan.given(&self.values).map(|(field, _)| &*field.key);
        narrow::narrowed(self.table(entities), &self.call, &self.admission.standing, record, sent)
    }

    fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }

    fn write(&self, entities: &Entities, values: &[Option<Value>]) -> Result<Write, Error> {
        let plan = &self.plan;
        let columns = plan.given(values).map(|(field, _)| &*field.column).chain(["updated_at"]);
        let sql = plan.sql.update(columns, &self.admission.reach);
        let mut params: Vec<Value> = plan.given(values).map(|(_, value)| value.clone()).collect();
        params.push(Value::Time(entities.ambient().now()));
        params.extend(self.key.iter().cloned());
        Ok(Write {
            kind: EventKind::Updated,
            plan: plan.clone(),
            id: Some(self.id().to_owned()),
            call: self.call.clone(),
            fields: write::fields(values),
            sql,
            params,
            links: links::links(self.table(entities), &self.call, &self.admission.standing, values)?,
            precondition: self.condition.clone().map(|condition| Precondition {
                condition,
                sql: plan.sql.lock.within(&self.admission.reach),
                params: self.key.clone(),
            }),
        })
    }

    fn relations<'a>(&'a self, entities: &'a Entities, tx: Option<&'a Tx>) -> Relations<'a> {
        Relations { table: self.table(entities), tx, call: &self.call, standing: &self.admission.standing }
    }

    fn table<'a>(&'a self, entities: &'a Entities) -> Table<'a> {
        Table { entities, plan: &self.plan }
    }
}

/// A body without fields: returns the record unchanged.
async fn unchanged(update: &Update, entities: &Entities, id: &str) -> Result<Record, Error> {
    let record = get::fetch(update.table(entities), &update.call, &update.admission.reach, id).await?;
    if let Some(condition) = &update.condition {
        condition.check(&record)?;
    }
    Ok(record)
}
