//! Checks relations to records with an owner or a tenant.
//!
//! A foreign key checks whether a record exists, but not who owns it. Without this check, a caller who knows the id of
//! another account's record could create records that refer to it and, with `restrict`, prevent its owner from deleting
//! it. So a relation to an owned or multi-tenant entity must name a record that the caller could read, in the request's
//! own tenant; any other looks like one that does not exist. So does one that is in the trash, where the foreign key
//! would still find it. A relation to `users` from a multi-tenant entity must name a member of the request's tenant,
//! for the same reason.

use std::sync::Arc;

use gatewright_base::{Subject, TenantId, Turn, UserId};
use gatewright_db::{Error as DatabaseError, Tx, Value, params};

use crate::access::{Action, Reach, Standing, decide};
use crate::call::Call;
use crate::condition::Viewer;
use crate::context::admission::{Admission, bound};
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::context::table::Table;
use crate::declare::Target;
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
    to: To,
}

#[derive(Clone)]
enum To {
    /// A record within the caller's reach.
    Record(Statement),
    /// A member of the request's tenant.
    Member { memberships: Arc<dyn Memberships>, user: Subject, tenant: TenantId },
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The links that a write's values make.
pub(super) fn links(relations: Relations<'_>, values: &[Option<Value>]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    let mut unreachable = Vec::new();
    for (field, to, id) in relations.named(values) {
        match relations.demand(field, to, id) {
            Demand::Exists => {}
            Demand::Holds(link) => links.push(link),
            Demand::Never => unreachable.push(field.key.clone()),
        }
    }
    if unreachable.is_empty() { Ok(links) } else { Err(Error::no_such_relation(unreachable)) }
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
            To::Member { memberships, user, tenant } => memberships.is_member_within(tx, user, tenant).await?,
        };
        if !found {
            missing.push(link.key.clone());
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Error::no_such_relation(missing)) }
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
}

impl<'a> Relations<'a> {
    /// Of a write outside of a transaction.
    pub(super) fn outside(table: Table<'a>, call: &'a Call, admission: &'a Admission) -> Self {
        let readable = admission.rights.of(table.plan.index);
        Self { table, tx: None, call, standing: &admission.standing, readable }
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
                errors.extend(fields.into_iter().map(FieldError::names_no_record));
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
    async fn missing(self, values: &[Option<Value>]) -> Result<Vec<String>, Error> {
        let mut missing = Vec::new();
        for (field, value) in self.table.plan.given(values).filter(|(field, _)| field.is_writable()) {
            let (Some(relation), Value::Text(id)) = (field.relation, value) else { continue };
            let is_there = match (self.demand(field, relation.to, id), relation.to) {
                (Demand::Never, _) => false,
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
            };
            if !is_there {
                missing.push(field.key.clone());
            }
        }
        Ok(missing)
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
        let Self { table: Table { entities, .. }, call, standing, .. } = self;
        let key = field.key.clone();
        let index = match to {
            Target::Entity(index) => index,
            Target::Users => {
                let to = self.table.plan.tenant.is_some().then(|| member(entities, call, standing, id)).flatten();
                return to.map_or(Demand::Exists, |to| Demand::Holds(Link { key, to }));
            }
        };
        let target = entities.at(index);
        let rule = target.row_rules.get(Action::Read);
        let reach = match decide(entities.policy(), &target.rules, &call.identity, standing, Action::Read) {
            // The operator may refer to every record, except those in the trash.
            _ if call.is_operators() => Reach::ALL,
            Ok(reach) => {
                let viewer = || Arc::new(Viewer::new(&call.identity, standing, entities.ambient().now()));
                reach.under(rule.map(|rule| bound(target, rule, &viewer())))
            }
            Err(_) => return Demand::Never,
        };
        if reach == Reach::ALL && !target.soft_delete {
            return Demand::Exists;
        }
        Demand::Holds(Link { key, to: To::Record(target.sql.exists(id, &reach)) })
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
    async fn is_there(self, Statement { sql, params }: Statement) -> Result<bool, DatabaseError> {
        if let Some(tx) = self.tx
            && let Ok(found) = tx.query_opt(&sql, params.clone()).await
        {
            return Ok(found.is_some());
        }
        Ok(self.table.entities.db_for(self.call).query_opt(sql, params).await?.is_some())
    }
}
