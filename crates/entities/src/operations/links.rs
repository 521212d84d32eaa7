//! Checks relations to records with an owner or a tenant.
//!
//! A foreign key checks whether a record exists, but not who owns it. Without this check, a caller who knows the id of
//! another account's record could create records that refer to it and, with `restrict`, prevent its owner from deleting
//! it. So a relation to an owned or multi-tenant entity must name a record that the caller could read, in the request's
//! own tenant; any other looks like one that does not exist. So does one that is in the trash, where the foreign key
//! would still find it. A relation to `users` from a multi-tenant entity must name a member of the request's tenant,
//! for the same reason.

use std::collections::HashSet;
use std::sync::Arc;

use gatewright_base::{Subject, TenantId, Turn, UserId};
use gatewright_db::json::Json;
use gatewright_db::{Error as DatabaseError, Row, Tx, Value, params};

use crate::access::{Action, Reach, Standing, decide};
use crate::call::Call;
use crate::condition::Viewer;
use crate::context::admission::{Admission, bound};
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::context::table::Table;
use crate::declare::Target;
use crate::encode::Stored;
use crate::error::Error;
use crate::plan::{Field, Statement};
use crate::readable::Readable;
use crate::tenancy::Memberships;
use crate::value::body::{InvalidBody, MAX_ERRORS};
use crate::value::{BodyError, FieldError};

/// What a relation must refer to.
#[derive(Clone)]
pub(super) struct Link {
    /// The field's key on the wire.
    key: String,
    /// The position in the list of a relation to many records.
    index: Option<usize>,
    to: To,
}

impl Link {
    fn missing(&self) -> FieldError {
        match self.index {
            Some(index) => FieldError::names_no_record_at(&self.key, index),
            None => FieldError::names_no_record(&self.key),
        }
    }
}

#[derive(Clone)]
enum To {
    /// A record within the caller's reach.
    Record(Statement),
    /// Records within the caller's reach, by the positions of their ids in the list: the statement selects the ids that are
    /// there.
    Records(Vec<(usize, String)>, Statement),
    /// A member of the request's tenant.
    Member { memberships: Arc<dyn Memberships>, user: Subject, tenant: TenantId },
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The user with this id as a member of the caller's tenant. `None` for the caller, who was admitted as a member. Text
/// that is not an id is left to the foreign key.
fn member(entities: &Entities, call: &Call, standing: &Standing, id: &str) -> Option<To> {
    let (Standing::Member(membership), Some(memberships)) = (standing, entities.shared_memberships()) else {
        return None;
    };
    let user = Subject::User(UserId::parse(id).ok()?);
    if call.identity.principal().is_some_and(|principal| principal.subject == user) {
        return None;
    }
    Some(To::Member { memberships: memberships.clone(), user, tenant: membership.tenant.clone() })
}

/// Fails when a link's record is not there or not the caller's.
pub(super) async fn check(tx: &Tx, links: &[Link]) -> Result<(), Error> {
    let mut missing = Vec::new();
    for link in links {
        let found = match &link.to {
            To::Record(Statement { sql, params }) => tx.query_opt(sql, params.clone()).await?.is_some(),
            To::Records(ids, Statement { sql, params }) => {
                missing.extend(absent(&link.key, ids, &tx.query(sql, params.clone()).await?)?);
                continue;
            }
            To::Member { memberships, user, tenant } => memberships.is_member_within(tx, user, tenant).await?,
        };
        if !found {
            missing.push(link.missing());
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Error::no_such_relation(missing)) }
}

/// The errors of the ids that these rows do not have.
fn absent(key: &str, ids: &[(usize, String)], found: &[Row]) -> Result<Vec<FieldError>, DatabaseError> {
    let found = found.iter().map(|row| row.get("id")).collect::<Result<HashSet<String>, _>>()?;
    let absent = ids.iter().filter(|(_, id)| !found.contains(id));
    Ok(absent.map(|(index, _)| FieldError::names_no_record_at(key, *index)).collect())
}

/// The check of the record that a relation names.
enum Demand {
    /// That it is there.
    Exists,
    /// More, which this asks.
    Holds(Link),
    /// The caller may read no record of that entity.
    Never,
}

/// The relations of one write, to find those that name no record.
#[derive(Clone, Copy)]
pub(super) struct Relations<'a> {
    pub(super) table: Table<'a>,
    /// The transaction that the write is part of.
    pub(super) tx: Option<&'a Tx>,
    pub(super) call: &'a Call,
    pub(super) standing: &'a Standing,
    /// The fields that the caller may read.
    pub(super) readable: &'a Readable,
    /// The record as it is stored. Ids that a relation to many records has already may stay.
    pub(super) held: Option<&'a Stored>,
}

/// The ids that a write adds to a relation to many records, each with its position in the list.
struct Added<'a> {
    field: &'a Field,
    to: Target,
    ids: Vec<(usize, String)>,
}

impl<'a> Relations<'a> {
    /// The links that a write's values make, without what the program chose in the fields that `set` marks: for that, the database looks
    /// alone. What is among the values of the `callers` too is the caller's choice.
    pub(super) fn links_beside(
        self,
        values: &[Option<Value>],
        set: &[bool],
        callers: &[Option<Value>],
    ) -> Result<Vec<Link>, Error> {
        if !set.contains(&true) {
            return self.links(values);
        }
        let chosen = values.iter().zip(set).zip(callers).map(|((value, is_set), given)| match (value, given) {
            (value, _) if !is_set => value.clone(),
            (Some(Value::Json(ids)), Some(Value::Json(given))) => common(ids, given),
            (value, given) => value.clone().filter(|value| Some(value) == given.as_ref()),
        });
        self.links(&chosen.collect::<Vec<_>>())
    }

    /// The links that a write's values make.
    pub(super) fn links(self, values: &[Option<Value>]) -> Result<Vec<Link>, Error> {
        let (mut links, mut unreachable) = (Vec::new(), Vec::new());
        for (field, to, id) in self.named(values) {
            match self.demand(field, to, id) {
                Demand::Exists => {}
                Demand::Holds(link) => links.push(link),
                Demand::Never => unreachable.push(FieldError::names_no_record(&field.key)),
            }
        }
        for Added { field, to, ids } in self.added(values) {
            let index = match to {
                Target::Entity(index) => index,
                Target::Users => {
                    links.extend(ids.iter().filter_map(|(at, id)| self.member(field, id, Some(*at))));
                    continue;
                }
            };
            match self.reach_in(index) {
                None => unreachable.extend(ids.iter().map(|(at, _)| FieldError::names_no_record_at(&field.key, *at))),
                Some(reach) if reach == Reach::ALL && !self.table.entities.at(index).soft_delete => {}
                Some(reach) => {
                    let found = self.those_there(index, &ids, &reach);
                    links.push(Link { key: field.key.clone(), index: None, to: To::Records(ids, found) });
                }
            }
        }
        if unreachable.is_empty() { Ok(links) } else { Err(Error::no_such_relation(unreachable)) }
    }

    /// The statement that selects those of these ids that records of an entity have.
    fn those_there(self, entity: usize, ids: &[(usize, String)], reach: &Reach) -> Statement {
        let target = self.table.entities.at(entity);
        let ids: Vec<&str> = ids.iter().map(|(_, id)| &**id).collect();
        target.sql.exist(&ids, reach, target.engine)
    }

    fn added<'v>(self, values: &'v [Option<Value>]) -> impl Iterator<Item = Added<'v>>
    where
        'a: 'v,
    {
        self.table.plan.given(values).filter_map(move |(field, value)| {
            let (Some(to), Value::Json(list)) = (field.links, value) else { return None };
            // Whoever may not read the field does not learn what is in it.
            let held = self.held.filter(|_| self.readable.has_column(&field.column));
            let kept = held.map(|held| ids_of(field, held)).unwrap_or_default();
            let ids: Vec<String> = serde_json::from_str(list.as_str()).unwrap_or_default();
            let ids: Vec<_> = ids.into_iter().enumerate().filter(|(_, id)| !kept.contains(id)).collect();
            (!ids.is_empty()).then_some(Added { field, to, ids })
        })
    }

    /// Of a write outside of a transaction.
    pub(super) fn outside(table: Table<'a>, call: &'a Call, admission: &'a Admission) -> Self {
        let readable = admission.rights.of(table.plan.index);
        Self { table, tx: None, call, standing: &admission.standing, readable, held: None }
    }

    /// Waits for the turn to read a body. A transaction does not wait, because other writers wait for it.
    pub(super) async fn turn_to_read(self, body: &[u8]) -> Option<Turn> {
        match self.tx {
            Some(_) => None,
            None => self.table.entities.body_turns().take(share(self.call), body.len()).await,
        }
    }

    /// The errors of a body, including its relations that name no record.
    pub(super) async fn complete(self, InvalidBody { error, values, .. }: InvalidBody) -> BodyError {
        let BodyError::Invalid(mut errors) = error else { return error };
        match Box::pin(self.missing(&values)).await {
            Ok(fields) => {
                errors.extend(fields);
                errors.truncate(MAX_ERRORS);
            }
            // The body is refused in any case.
            Err(error) => tracing::debug!(%error, "cannot look for the records that a refused body names"),
        }
        BodyError::Invalid(errors)
    }

    /// After the database refused a write, all fields that are the reason. After a foreign key or a link: all relations that
    /// name no record. SQLite does not report which foreign key failed. After a unique index: all values that others
    /// have. `id` is the record, unless it is a new one.
    pub(super) async fn explain(self, values: &[Option<Value>], id: Option<&str>, error: Error) -> Error {
        let fallback = match error {
            Error::Taken(first) => return Box::pin(self.taken(Some(values), id, first)).await,
            Error::Database(DatabaseError::ForeignKey { .. }) => Error::LostRelation,
            error if error.is_of_relations() => error,
            error => return error,
        };
        match Box::pin(self.missing(values)).await {
            Ok(missing) if missing.is_empty() => fallback,
            Ok(missing) => Error::no_such_relation(missing),
            Err(error) => error,
        }
    }

    /// All fields of a write whose values must be unique and are another record's, in the order of their declaration. Without
    /// `values`, those of the record.
    pub(super) async fn taken(
        self,
        values: Option<&[Option<Value>]>,
        id: Option<&str>,
        first: Vec<FieldError>,
    ) -> Error {
        let plan = self.table.plan;
        let given = |index: usize| values.and_then(|values| values.get(index)?.as_ref());
        let mut all: Vec<FieldError> = Vec::new();
        for key in &plan.unique {
            let mut fields = key.fields.iter().map(|field| given(field.index));
            let is_null = fields.clone().any(|value| value == Some(&Value::Null));
            if is_null || values.is_some() && fields.all(|value| value.is_none()) {
                continue;
            }
            let errors = plan.taken(key);
            if errors.is_empty() {
                continue;
            }
            let tenant = plan.tenant.map(|index| (index, false));
            let compared = key.fields.iter().map(|field| (field.index, field.folded)).chain(tenant);
            let compared = compared.map(|(index, folded)| (&*plan.fields.at(index).column, folded, given(index)));
            // What the database has named is taken, even if the other record is gone by now.
            let is_taken = errors.iter().all(|error| first.contains(error))
                || match self.is_there(plan.sql.taken(compared, id)).await {
                    Ok(is_taken) => is_taken,
                    Err(error) => {
                        tracing::debug!(%error, "cannot look for the other unique values of a refused write");
                        false
                    }
                };
            if is_taken {
                all.extend(errors);
            }
        }
        let position = |error: &FieldError| plan.fields.iter().position(|field| field.key == error.field);
        all.sort_by_key(position);
        all.dedup_by(|error, other| error.field == other.field);
        let mut taken = if all.is_empty() { first } else { all };
        taken.retain(|error| self.readable.has_key(&error.field));
        Error::Taken(taken)
    }

    /// Whether any record of the entity has this id, in the trash or not.
    pub(super) async fn is_any(self, id: &str) -> bool {
        let found = self.is_there(self.table.plan.sql.trashed_or_live(id, &Reach::ALL)).await;
        found.unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot look for the id of a refused record");
            false
        })
    }

    /// The fields whose records do not exist, or not for the caller. The owner's field is not included: the service fills
    /// it in, so a deleted account is not an error of the body.
    async fn missing(self, values: &[Option<Value>]) -> Result<Vec<FieldError>, Error> {
        let mut missing = Vec::new();
        for (field, value) in self.table.plan.given(values).filter(|(field, _)| field.is_writable()) {
            let (Some(relation), Value::Text(id)) = (field.relation, value) else { continue };
            if !self.names_a_record(self.demand(field, relation.to, id), relation.to, id).await? {
                missing.push(FieldError::names_no_record(&field.key));
            }
        }
        for Added { field, to, ids } in self.added(values).filter(|added| added.field.is_writable()) {
            let Target::Entity(index) = to else {
                for (at, id) in &ids {
                    let demand = self.member(field, id, None).map_or(Demand::Exists, Demand::Holds);
                    if !self.names_a_record(demand, to, id).await? {
                        missing.push(FieldError::names_no_record_at(&field.key, *at));
                    }
                }
                continue;
            };
            let found = match self.reach_in(index) {
                None => Vec::new(),
                Some(reach) => self.rows(self.those_there(index, &ids, &reach)).await?,
            };
            missing.extend(absent(&field.key, &ids, &found)?);
        }
        Ok(missing)
    }

    async fn names_a_record(self, demand: Demand, to: Target, id: &str) -> Result<bool, Error> {
        Ok(match (demand, to) {
            (Demand::Never | Demand::Holds(Link { to: To::Records(..), .. }), _) => false,
            (Demand::Holds(Link { to: To::Record(exists), .. }), _) => self.is_there(exists).await?,
            (Demand::Holds(Link { to: To::Member { memberships, user, tenant }, .. }), _) => {
                self.is_member(&*memberships, &user, &tenant).await?
            }
            (Demand::Exists, Target::Entity(index)) => {
                self.is_there(self.table.entities.at(index).sql.exists(id, &Reach::ALL)).await?
            }
            (Demand::Exists, Target::Users) => match self.table.entities.users_exist() {
                Some(sql) => self.is_there(Statement { sql, params: params![id] }).await?,
                None => true,
            },
        })
    }

    /// The relations among `values`, and their targets.
    fn named<'v>(self, values: &'v [Option<Value>]) -> impl Iterator<Item = (&'v Field, Target, &'v str)>
    where
        'a: 'v,
    {
        self.table.plan.given(values).filter_map(|(field, value)| match value {
            Value::Text(id) => Some((field, field.relation?.to, &**id)),
            _ => None,
        })
    }

    fn demand(self, field: &Field, to: Target, id: &str) -> Demand {
        let index = match to {
            Target::Entity(index) => index,
            Target::Users => return self.member(field, id, None).map_or(Demand::Exists, Demand::Holds),
        };
        let target = self.table.entities.at(index);
        match self.reach_in(index) {
            None => Demand::Never,
            Some(reach) if reach == Reach::ALL && !target.soft_delete => Demand::Exists,
            Some(reach) => {
                let to = To::Record(target.sql.exists(id, &reach));
                Demand::Holds(Link { key: field.key.clone(), index: None, to })
            }
        }
    }

    /// How far the caller may read in an entity that a relation names. `None` if not at all.
    fn reach_in(self, index: usize) -> Option<Reach> {
        let Self { table: Table { entities, .. }, call, standing, .. } = self;
        let target = entities.at(index);
        let rule = target.row_rules.get(Action::Read);
        match decide(entities.policy(), &target.rules, &call.identity, standing, Action::Read) {
            // The operator may refer to every record, except those in the trash.
            _ if call.is_operators() => Some(Reach::ALL),
            Ok(reach) => {
                let viewer = || Arc::new(Viewer::new(&call.identity, standing, entities.ambient().now()));
                Some(reach.under(rule.map(|rule| bound(target, rule, &viewer()))))
            }
            Err(_) => None,
        }
    }

    /// What a relation of a multi-tenant entity to a user must hold.
    fn member(self, field: &Field, id: &str, index: Option<usize>) -> Option<Link> {
        self.table.plan.tenant?;
        let to = member(self.table.entities, self.call, self.standing, id)?;
        Some(Link { key: field.key.clone(), index, to })
    }

    /// If the transaction fails, as in [`is_there`](Self::is_there), the store is queried outside of it.
    async fn is_member(self, store: &dyn Memberships, user: &Subject, tenant: &TenantId) -> Result<bool, Error> {
        if let Some(tx) = self.tx
            && let Ok(is_member) = store.is_member_within(tx, user, tenant).await
        {
            return Ok(is_member);
        }
        Ok(store.is_member(user, tenant).await?)
    }

    /// Only the transaction sees the records that it created. On Postgres, a foreign key error aborts the transaction, so
    /// another connection is queried instead. On SQLite this does not occur, and it would block the writer.
    async fn is_there(self, statement: Statement) -> Result<bool, DatabaseError> {
        Ok(!self.rows(statement).await?.is_empty())
    }

    async fn rows(self, Statement { sql, params }: Statement) -> Result<Vec<Row>, DatabaseError> {
        if let Some(tx) = self.tx
            && let Ok(found) = tx.query(&sql, params.clone()).await
        {
            return Ok(found);
        }
        self.table.entities.db_for(self.call).query(sql, params).await
    }
}

/// The ids of a list that another list has too.
fn common(ids: &Json, others: &Json) -> Option<Value> {
    let read = |list: &Json| serde_json::from_str::<Vec<String>>(list.as_str()).unwrap_or_default();
    let others = read(others);
    let common: Vec<String> = read(ids).into_iter().filter(|id| others.contains(id)).collect();
    Json::read(&serde_json::json!(common).to_string()).ok().map(Value::Json)
}

/// The ids that a record's relation to many records has.
fn ids_of(field: &Field, record: &Stored) -> HashSet<String> {
    let fields = record.fields().unwrap_or_default();
    let list = fields.get(&*field.key).map(|list| list.get());
    list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}
