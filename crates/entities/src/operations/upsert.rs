//! Creates a record or, if one has the same values of a unique set of fields, changes that record.
//!
//! Which of the two happens is decided in the transaction. A record that the caller may not read is no reason to change
//! anything: then the create runs, and the database refuses it as it refuses every create with a taken value. On
//! Postgres another transaction can create the record between the look and the create: then everything runs again
//! ([`items`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gatewright_db::{Sql, Tx, Value, dialect};

use super::body::Body;
use super::create::Create;
use super::items::{self, Doing, Item, Known, Outcome};
use super::links::Relations;
use super::transaction::Transaction;
use super::update::Update;
use super::write;
use crate::access::{Action, Reach, Refusal};
use crate::call::Call;
use crate::context::admission::{Admission, admit, reach};
use crate::context::table::Table;
use crate::declare::KeyField;
use crate::declare::model::folded_column;
use crate::encode::{Record, Stored};
use crate::error::Error;
use crate::fragment::quoted;
use crate::plan::{Plan, Statement};
use crate::readable::Readable;
use crate::value::body::{InvalidBody, Mode, required};
use crate::value::{BodyError, Draft};

/// What makes a create an upsert: the fields of a declared unique set, and what happens to the record that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnConflict {
    fields: Vec<String>,
    is_ignored: bool,
}

impl OnConflict {
    /// Changes the record that has the same values of these fields.
    pub fn update<F: Into<String>>(fields: impl IntoIterator<Item = F>) -> Self {
        Self { fields: fields.into_iter().map(Into::into).collect(), is_ignored: false }
    }

    /// Leaves the record as it is that has the same values of these fields.
    pub fn ignore<F: Into<String>>(fields: impl IntoIterator<Item = F>) -> Self {
        Self { is_ignored: true, ..Self::update(fields) }
    }

    /// Reads the parameters `on_conflict` and `resolution` of a query string. `None` if it has neither.
    ///
    /// Fails with [`Error::Query`] if they are invalid.
    pub fn parse(query: &str) -> Result<Option<Self>, Error> {
        let (mut fields, mut resolution) = (None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "on_conflict" => &mut fields,
                "resolution" => &mut resolution,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(Error::Query(format!("{name} is given more than once")));
            }
        }
        let Some(fields) = fields else {
            return match resolution {
                None => Ok(None),
                Some(_) => Err(Error::Query("resolution takes effect only together with on_conflict".to_owned())),
            };
        };
        let fields = fields.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(Some(Self { fields: fields.collect(), is_ignored: is_ignored(resolution.as_deref())? }))
    }

    /// From the members of an operation.
    pub(super) fn of(fields: Vec<String>, resolution: Option<&str>) -> Result<Self, Error> {
        Ok(Self { fields, is_ignored: is_ignored(resolution)? })
    }
}

fn is_ignored(resolution: Option<&str>) -> Result<bool, Error> {
    match resolution {
        None | Some("update") => Ok(false),
        Some("ignore") => Ok(true),
        Some(_) => Err(Error::Query("resolution is update or ignore".to_owned())),
    }
}

impl Table<'_> {
    /// Creates a record, or changes the one that has the same values of a unique set of fields. Returns the record and
    /// whether it is new. Operators of the body apply to the record that exists; for a new one, to nothing.
    ///
    /// Fails like [`create`](Self::create) and like [`update`](Self::update), with [`Error::Query`] if no unique index
    /// covers the fields, and with [`Error::Taken`] if the caller may not read the record that exists.
    pub async fn upsert(
        self,
        call: &Call,
        body: impl Into<Body<'_>>,
        on_conflict: &OnConflict,
    ) -> Result<(Record, bool), Error> {
        let body = body.into();
        let rights = Rights::of(self, call, on_conflict).await?;
        let upsert = Upsert::read(self, call, &rights, &body).await?;
        let item = Item::new(self, call, Doing::Upsert(Box::new(upsert))).alone();
        match items::run(self.entities, call, vec![item], None).await? {
            Outcome::Committed(mut done) => done.pop().map(|done| (done.record, done.is_new)).ok_or(Error::NotFound),
            Outcome::Failed { error, .. } => Err(error),
        }
    }
}

/// What a caller may do by upserts that name these fields. It is the same for all items of a batch.
pub(super) struct Rights {
    set: Vec<KeyField>,
    create: Admission,
    /// Absent if the record that exists stays as it is.
    update: Option<Result<Admission, Refusal>>,
    /// How far the caller may read, if at all.
    readable: Option<Reach>,
}

impl Rights {
    /// Fails if the caller may not create records.
    pub(super) async fn of(table: Table<'_>, call: &Call, on_conflict: &OnConflict) -> Result<Self, Error> {
        let create = admit(table, call, Action::Create).await?;
        let readable = create.rights.of(table.plan.index);
        let set = table.plan.unique_set(&on_conflict.fields, readable).map_err(Error::Query)?;
        let update = if on_conflict.is_ignored {
            None
        } else {
            Some(match admit(table, call, Action::Update).await {
                Ok(admission) => Ok(admission),
                Err(Error::Refused(refusal)) => Err(refusal),
                Err(error) => return Err(error),
            })
        };
        let readable = match reach(table, call, Action::Read).await {
            Ok(reach) => Some(reach),
            Err(Error::Refused(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { set, create, update, readable })
    }
}

/// One upsert. Its body is parsed as a create and as an update.
#[derive(Clone)]
pub(super) struct Upsert {
    plan: Arc<Plan>,
    call: Call,
    /// The values of the unique set.
    key: Vec<(KeyField, Value)>,
    tenant: Option<Value>,
    readable: Option<Reach>,
    /// The fields that the caller may read.
    fields: Readable,
    create: Result<Create, BodyError>,
    update: Option<Result<Update, Refusal>>,
    /// Whether the last run found no record, and created one.
    was_free: Arc<AtomicBool>,
}

impl Upsert {
    pub(super) async fn read(table: Table<'_>, call: &Call, rights: &Rights, body: &[u8]) -> Result<Self, Error> {
        let plan = table.plan;
        let relations = |admission| Relations::outside(table, call, admission);
        let create = match Create::read(relations(&rights.create), &rights.create, body, Mode::Upsert).await {
            Ok(create) => Ok(create),
            Err(Error::Body(error @ BodyError::Invalid(_))) => Err(error),
            Err(error) => return Err(error),
        };
        let fields = rights.create.rights.of(plan.index);
        let key = key(plan, fields, &rights.create.reach, &rights.set, body)?;
        let update = match &rights.update {
            None => None,
            Some(Err(refusal)) => Some(Err(refusal.clone())),
            // The id is that of the record that is found.
            Some(Ok(admission)) => Some(Ok(Update::read(relations(admission), admission, NOBODY, body).await?)),
        };
        Ok(Self {
            plan: plan.clone(),
            call: call.clone(),
            key,
            tenant: plan.tenant.and(rights.create.reach.tenant()).map(|tenant| Value::from(tenant.as_str())),
            readable: rights.readable.clone(),
            fields: fields.clone(),
            create,
            update,
            was_free: Arc::default(),
        })
    }

    /// The id that stands for the record until it is known. A new record gets it.
    pub(super) fn placeholder(&mut self, next: impl FnOnce() -> String) -> Option<String> {
        self.create.as_mut().ok().map(|create| create.id_or(next))
    }

    /// The id that stands for the record, if later items name it.
    pub(super) fn placeholder_id(&self) -> Option<&str> {
        self.create.as_ref().ok()?.id.as_deref()
    }

    /// With the ids of earlier items in the place of their placeholders.
    pub(super) fn knowing(&self, known: &Known) -> Self {
        Self {
            create: self.create.as_ref().map(|create| create.knowing(known)).map_err(Clone::clone),
            update: self.update.as_ref().map(|update| match update {
                Ok(update) => Ok(update.knowing(known)),
                Err(refusal) => Err(refusal.clone()),
            }),
            key: self.key.iter().map(|(field, value)| (*field, known.value(&self.plan, field.index, value))).collect(),
            ..self.clone()
        }
    }

    /// Returns the record, and whether it is new.
    pub(super) async fn perform(&self, transaction: &Transaction<'_>) -> Result<(Record, bool), Error> {
        let found = self.found(transaction.tx).await?;
        self.was_free.store(found.is_none(), Ordering::Relaxed);
        let readable = match &found {
            Some(id) => self.readable(transaction, id).await?,
            None => None,
        };
        let Some(held) = readable else {
            let create = self.create.as_ref().map_err(Clone::clone)?;
            return Ok((create.perform(transaction).await?, true));
        };
        let updated = match &self.update {
            None => return Ok((held.seen_by(&self.fields), false)),
            Some(Err(refusal)) => return Err(refusal.clone().into()),
            Some(Ok(update)) => update.of(held.id()).perform(transaction).await,
        };
        let table = Table { entities: transaction.entities, plan: &self.plan };
        let updated = transaction.reveal_if_readable(table, &self.call, held.id(), updated).await?;
        Ok((updated, false))
    }

    /// Whether a record with the same values was created while this failed to create it.
    pub(super) async fn lost_a_race(&self, table: Table<'_>, error: &Error) -> bool {
        if !matches!(error, Error::Taken(_)) || !self.was_free.load(Ordering::Relaxed) {
            return false;
        }
        let Some((sql, params)) = self.statement("") else { return false };
        matches!(table.entities.db_for(&self.call).query_opt(sql, params).await, Ok(Some(_)))
    }

    /// The record that has the same values, whoever may read it, locked for the transaction.
    async fn found(&self, tx: &Tx) -> Result<Option<String>, Error> {
        let Some((sql, params)) = self.statement(dialect::for_update(tx.engine())) else { return Ok(None) };
        Ok(tx.query_opt(sql, params).await?.map(|row| row.get("id")).transpose()?)
    }

    /// `None` if a value is null: nulls differ from each other.
    fn statement(&self, lock: &str) -> Option<(Sql, Vec<Value>)> {
        let mut params: Vec<Value> = Vec::with_capacity(self.key.len() + 1);
        let mut conditions = Vec::with_capacity(self.key.len() + 2);
        let tenant = self.plan.tenant.map(|index| KeyField { index, folded: false }).zip(self.tenant.clone());
        for (field, value) in self.key.iter().cloned().chain(tenant) {
            if value == Value::Null {
                return None;
            }
            params.push(value);
            let (column, placeholder) = (&self.plan.fields.at(field.index).column, format!("?{}", params.len()));
            conditions.push(if field.folded {
                format!("{} = {}", quoted(&folded_column(column)), dialect::folded(&placeholder))
            } else {
                format!("{} = {placeholder}", quoted(column))
            });
        }
        if self.plan.soft_delete {
            conditions.push("\"deleted_at\" IS NULL".to_owned());
        }
        let (table, conditions) = (quoted(&self.plan.table), conditions.join(" AND "));
        Some((format!("SELECT \"id\" FROM {table} WHERE {conditions}{lock}").into(), params))
    }

    /// The record, if the caller may read it.
    async fn readable(&self, transaction: &Transaction<'_>, id: &str) -> Result<Option<Stored>, Error> {
        let Some(reach) = &self.readable else { return Ok(None) };
        transaction.take_memory(&self.plan, id, &self.call).await?;
        let Statement { sql, params } = self.plan.sql.lock.within(id, reach);
        let record = write::one(transaction.tx, &self.plan, &sql, params).await?;
        Ok(match transaction.entities.read_hooks_of(&self.plan) {
            Some(hooks) if hooks.before_get(&self.call, id).await.is_err() => None,
            _ => record,
        })
    }
}

/// An id that no record has, for an update whose record is not known.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// The values of a unique set in a body. Those of the owner come from the caller.
fn key(
    plan: &Plan,
    fields: &Readable,
    reach: &Reach,
    set: &[KeyField],
    body: &[u8],
) -> Result<Vec<(KeyField, Value)>, Error> {
    let (values, mut errors) = match Draft::read(&plan.fields, fields, body, Mode::Update) {
        Ok(draft) => (draft.values, Vec::new()),
        Err(InvalidBody { error: BodyError::Invalid(errors), values, .. }) => (values, errors),
        Err(InvalidBody { error, .. }) => return Err(error.into()),
    };
    let mut key = Vec::with_capacity(set.len());
    for of_key in set {
        let (index, field) = (of_key.index, plan.fields.at(of_key.index));
        let owner = || (plan.owner == Some(index)).then(|| reach.owner()).flatten().map(Value::from);
        match values[index].clone().or_else(owner) {
            Some(value) => key.push((*of_key, value)),
            None if errors.iter().any(|error| error.field == field.key) => {}
            None => errors.push(required().at(&field.key)),
        }
    }
    if key.len() == set.len() { Ok(key) } else { Err(BodyError::Invalid(errors).into()) }
}
