use gatewright_base::OverBudget;
use gatewright_db::Error as DatabaseError;
use gatewright_events::outbox::OutboxFull;

use crate::access::{Action, Refusal};
use crate::plan::Plan;
use crate::tenancy::MembershipError;
use crate::value::body::MAX_ERRORS;
use crate::value::{BodyError, FieldError, code};

/// There is no entity with this name. From [`Entities::table`](crate::Entities::table).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no entity \"{name}\"{}", .meant.as_deref().map(|meant| format!("; did you mean \"{meant}\"?")).unwrap_or_default())]
#[non_exhaustive]
pub struct UnknownTable {
    /// The requested name.
    pub name: String,
    /// An entity with a similar name.
    pub meant: Option<String>,
}

/// Why an operation failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program requested an entity that is not declared.
    #[error(transparent)]
    UnknownTable(#[from] UnknownTable),
    /// The caller is not allowed to do this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A service account cannot own records whose owner is a relation to users.
    #[error("a service account cannot own records of this entity")]
    ServiceOwner,
    /// A relation leads to an entity that the request's interface does not serve.
    #[error("\"{0}\" leads to records that are not served here")]
    NotServed(String),
    /// The entity's records are only read.
    #[error("\"{0}\" is read-only")]
    ReadOnly(String),
    /// An access rule does not hold for a record that the caller may read or wants to create.
    #[error("the access rule for {} does not allow this", .0.as_str())]
    Rule(Action),
    /// The rules of these fields do not let the caller set or change them: their keys on the wire.
    #[error("{} may not be set or changed by this caller", .0.join(", "))]
    FieldForbidden(Vec<String>),
    /// The caller may read the record, but not change or delete it.
    #[error("this record is not yours to change")]
    NotChangeable,
    /// The record does not exist, or the caller does not reach it.
    #[error("no such record")]
    NotFound,
    /// The body is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Files cannot be attached to the record. Never empty.
    #[error("{}: {}", .0.first().map_or("", |error| &error.field), .0.first().map_or("", |error| &error.message))]
    Files(Vec<FieldError>),
    /// A parameter is invalid. The text says which and why.
    #[error("{0}")]
    Query(String),
    /// The answer would exceed the maximum size.
    #[error(
        "the answer would be larger than 8 MiB (1 MiB for a tool), a fixed limit; ask for fewer fields with fields, fewer relations with \
         include, or fewer items"
    )]
    TooLarge,
    /// There is no memory for the record at the moment.
    #[error(transparent)]
    OverBudget(OverBudget),
    /// The outbox has no room for the event of the write.
    #[error(transparent)]
    OutboxFull(#[from] OutboxFull),
    /// The limit of running lists of the caller or their address is reached.
    #[error("too many lists are under way for this caller or address; wait for one to end")]
    TooManyLists,
    /// The limit of running exports of the caller, or of all, is reached.
    #[error("too many exports are under way for this caller or in all; wait for one to end")]
    TooManyExports,
    /// The list took too long.
    #[error(
        "the list took too long and was stopped; narrow it with a filter on an indexed field, or use fewer ~ conditions"
    )]
    ListTooSlow,
    /// The index that the search needs does not have all records yet.
    #[error("the search index is being built; try again later")]
    SearchBuilding,
    /// Another record has a value that must be unique, or the values of a key. Contains all such fields in the order of their
    /// declaration, except those that the caller does not see.
    #[error("a value is taken already{}{}", if .0.is_empty() { "" } else { ": " }, keys(.0).join(", "))]
    Taken(Vec<FieldError>),
    /// A record, perhaps one that the caller does not reach, has the id that the caller chose.
    #[error("the id is taken already")]
    IdTaken,
    /// Other records refer to this one.
    #[error("other records refer to this one")]
    InUse,
    /// The delete has more dependent records than one transaction can delete.
    #[error("more than {0} records, or 64 MB of them, depend on this one; delete them first")]
    TooManyDependents(usize),
    /// A record that this one refers to was deleted in between.
    #[error("a record that this one refers to no longer exists")]
    LostRelation,
    /// The record does not match `If-Match`.
    #[error("the record has changed since it was read")]
    Precondition,
    /// Another request has the idempotency key of this one, or has taken it over.
    #[error("a request with this idempotency key is in progress")]
    KeyInProgress,
    /// A hook refused the write. The text is for the caller.
    #[error("{0}")]
    Rejected(String),
    /// A hook refused with its own answer to the caller: [`Error::from`] a [`Problem`](gatewright_http::Problem), for
    /// HTTP interfaces.
    #[error("{0}")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A hook failed. The text is only logged.
    #[error("a hook failed: {0}")]
    Hook(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The memberships could not be read.
    #[error(transparent)]
    Memberships(#[from] MembershipError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

fn keys(errors: &[FieldError]) -> Vec<&str> {
    errors.iter().map(|error| &*error.field).collect()
}

impl Error {
    /// The error of a hook. It is only logged.
    pub fn hook(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Hook(error.into())
    }

    /// A unique violation in the words of the entity that was written. The database names one field of several.
    pub(crate) fn named_by(self, plan: &Plan) -> Self {
        let Self::Database(DatabaseError::Unique { table, columns }) = &self else { return self };
        if **table != *plan.table {
            return self;
        }
        // The tenant's column is part of every unique index there, and repeats as a matter of course.
        if matches!(&**columns, [column] if column == "id") {
            return Self::IdTaken;
        }
        let tenant = plan.tenant.map(|index| &*plan.fields.at(index).column);
        let columns: Vec<&str> = columns.iter().map(String::as_str).filter(|column| Some(*column) != tenant).collect();
        let known = plan.unique.iter().find(|key| plan.columns_of(key).eq(columns.iter().copied()));
        Self::Taken(known.map(|key| plan.taken(key)).unwrap_or_default())
    }

    /// The error of a relation to a record that is not there, or not for the caller.
    pub(crate) fn no_such_relation(mut errors: Vec<FieldError>) -> Self {
        errors.truncate(MAX_ERRORS);
        Self::Body(BodyError::Invalid(errors))
    }

    /// Whether all of the errors are about relations.
    pub(crate) fn is_of_relations(&self) -> bool {
        matches!(self, Self::Body(BodyError::Invalid(errors)) if errors.iter().all(|error| error.code == code::RELATION))
    }
}
