//! Converts errors of operations into answers.

use std::borrow::Cow;
use std::time::Duration;

use gatewright_db::Error as DatabaseError;
use gatewright_http::{FieldError as ProblemField, Problem};
use http::StatusCode;

use crate::access::{Action, Refusal};
use crate::audience::TooManyFilters;
use crate::call::Call;
use crate::context::table::Table;
use crate::error::Error;
use crate::operations::{self, Explanation};
use crate::tenancy::MembershipError;
use crate::value::{BodyError, FieldError, code};

/// When to try again while the database does not answer.
const RETRY: Duration = Duration::from_secs(1);
/// When to try again while other exports run.
const AFTER_AN_EXPORT: Duration = Duration::from_secs(10);

impl Table<'_> {
    /// Why the caller may do something, or may not: with the record with this id, or with the entity as a whole. It is for
    /// operators: it reveals whether records exist, and values of related records. For [`Action::Create`] the record is evaluated as
    /// it is stored.
    pub async fn explain(self, call: &Call, action: Action, id: Option<&str>) -> Result<Explanation, Error> {
        let (explanation, refusal) = operations::explain(self, call, action, id).await?;
        let status = refusal.map(|refusal| Problem::from(refusal).status().as_u16());
        Ok(Explanation { status, ..explanation })
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::ServiceOwner | Error::NotServed(_) | Error::Rule(_) | Error::NotChangeable => {
                Self::forbidden(error.to_string())
            }
            Error::FieldForbidden(ref keys) => {
                let detail = error.to_string();
                let keys = keys.clone().into_iter();
                Self::forbidden(detail).with_code("field_forbidden").with_fields(keys.map(|key| ProblemField {
                    field: Some(key.into()),
                    code: code::FIELD_FORBIDDEN.into(),
                    message: "may not be set or changed by this caller".into(),
                }))
            }
            Error::ReadOnly(_) => Self::new(StatusCode::METHOD_NOT_ALLOWED, "read_only", error.to_string()),
            Error::NotFound => Self::not_found("no such record"),
            Error::Body(BodyError::Malformed(_)) => Self::bad_request(error.to_string()),
            Error::Body(BodyError::Invalid(errors)) => {
                Self::unprocessable(invalid(&errors)).with_fields(errors.into_iter().map(field))
            }
            Error::Files(errors) => {
                let first = errors.first().map_or(code::FILE_NOT_FOUND, |error| error.code);
                let status = if first == code::FILE_TOO_LARGE {
                    StatusCode::PAYLOAD_TOO_LARGE
                } else {
                    StatusCode::UNPROCESSABLE_ENTITY
                };
                Self::new(status, first, invalid(&errors)).with_fields(errors.into_iter().map(field))
            }
            Error::TooLarge => Self::too_large().with_code("answer_too_large").with_detail(error.to_string()),
            Error::Query(detail) => Self::bad_request(detail),
            Error::TooManyLists => {
                let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_lists", error.to_string());
                problem.retry_after(RETRY)
            }
            Error::TooManyExports => {
                let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_exports", error.to_string());
                problem.retry_after(AFTER_AN_EXPORT)
            }
            Error::OverBudget(over) => Self::unavailable(over.to_string(), RETRY).with_code("over_budget"),
            Error::OutboxFull(full) => Self::unavailable(full.to_string(), RETRY).with_code("outbox_full"),
            Error::SearchBuilding => Self::unavailable(error.to_string(), RETRY).with_code("search_building"),
            Error::ListTooSlow => Self::unavailable(error.to_string(), RETRY).with_code("list_timeout"),
            Error::Database(DatabaseError::SearchTooLarge) => {
                Self::bad_request("the list would search too much text; use fewer ~ conditions or narrow the list")
                    .with_code("list_too_costly")
            }
            Error::KeyInProgress => {
                Self::new(StatusCode::CONFLICT, "idempotency_in_progress", error.to_string()).retry_after(RETRY)
            }
            Error::IdTaken => Self::conflict(error.to_string()).with_code("id_taken"),
            Error::Taken(errors) => {
                let detail = match &*errors {
                    [] => "a value that must be unique is taken already".to_owned(),
                    [error] => format!("{} is taken already", error.field),
                    errors => {
                        let fields: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
                        format!("{} are taken already", fields.join(", "))
                    }
                };
                Self::conflict(detail).with_fields(errors.into_iter().map(field))
            }
            Error::InUse | Error::TooManyDependents(_) | Error::LostRelation => Self::conflict(error.to_string()),
            Error::Precondition => Self::precondition_failed(error.to_string()),
            Error::Rejected(detail) => Self::unprocessable(detail).with_code("rejected"),
            Error::Answer(answer) => match answer.downcast::<Self>() {
                Ok(problem) => *problem,
                Err(error) => Self::internal(&*error),
            },
            Error::Hook(_) | Error::UnknownTable(_) => Self::internal(&error),
            Error::Memberships(MembershipError::Store(error)) => {
                tracing::warn!(%error, "the memberships cannot be read");
                Self::unavailable("memberships cannot be checked right now", RETRY)
            }
            Error::Memberships(MembershipError::Database(error)) | Error::Database(error) => database(&error),
        }
    }
}

/// The answer of a hook to the caller.
impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Answer(Box::new(problem))
    }
}

impl From<TooManyFilters> for Problem {
    fn from(error: TooManyFilters) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_filters", error.to_string()).retry_after(RETRY)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unauthenticated => Self::unauthorized("authentication is required"),
            Refusal::SecondFactor => Self::forbidden(refusal.to_string()).with_code("two_factor_required"),
            Refusal::OutOfScope { ref resource, verb } => Self::out_of_scope(refusal.to_string(), resource, verb),
            Refusal::Forbidden(_) | Refusal::NotReader(_) | Refusal::NotMember => Self::forbidden(refusal.to_string()),
            Refusal::NoTenant(_) | Refusal::UnreadableTenant => {
                Self::bad_request(refusal.to_string()).with_code("tenant_required")
            }
        }
    }
}

fn field(FieldError { field, code: of, message }: FieldError) -> ProblemField {
    // A check need not be about a field, and the caller may not know the field that an error is about.
    let is_about_none = [code::CHECK, code::REQUIRED].contains(&of) && field.is_empty();
    ProblemField { field: (!is_about_none).then(|| field.into()), code: of.into(), message: message.into() }
}

/// A single error is the message itself; several are a list.
fn invalid(errors: &[FieldError]) -> Cow<'static, str> {
    match errors {
        [FieldError { field, message, .. }] if field.is_empty() => {
            format!("the record does not pass validation: {message}").into()
        }
        [FieldError { field, message, .. }] => format!("the record does not pass validation: {field} {message}").into(),
        _ => "the record does not pass validation".into(),
    }
}

fn database(error: &DatabaseError) -> Problem {
    if matches!(error, DatabaseError::Serialization) {
        return Problem::conflict("others change the same records at the same time; nothing was changed; try again");
    }
    if let DatabaseError::Outdated(_) = error {
        tracing::error!(%error, "a newer configuration changed the tables; restart this server with that configuration");
        return Problem::unavailable("this server runs a configuration from before a change of the tables", RETRY)
            .with_code("schema_changed");
    }
    if let DatabaseError::IdRepeats { table, id } = error {
        tracing::error!(view = table, id, "two rows of a view have the same id; correct its SELECT");
        let detail = "two rows of this view have the same id; the server's log names it";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "view_id_repeats", detail);
    }
    if DatabaseError::is_unreadable(error) {
        return Problem::record_unreadable(error);
    }
    if error.is_unavailable() {
        tracing::warn!(%error, "the database cannot answer");
        return Problem::unavailable("the database cannot answer right now", RETRY);
    }
    Problem::internal(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UnknownTable;

    #[test]
    fn every_error_has_its_status() {
        let unknown = |name: &str| UnknownTable { name: name.to_owned(), meant: None };
        let field = |code| FieldError { field: "title".into(), code, message: "is required".into() };
        let table = [
            (Error::Refused(Refusal::Unauthenticated), 401),
            (Error::Refused(Refusal::SecondFactor), 403),
            (Error::Refused(Refusal::Forbidden("posts:read".parse().unwrap())), 403),
            (Error::Refused(Refusal::OutOfScope { resource: "posts".into(), verb: "read" }), 403),
            (Error::Refused(Refusal::NoTenant(crate::TENANT_HEADER.to_string())), 400),
            (Error::Refused(Refusal::UnreadableTenant), 400),
            (Error::Refused(Refusal::NotMember), 403),
            (Problem::forbidden("not here").into(), 403),
            (Error::Answer("canary".into()), 500),
            (Error::hook("canary"), 500),
            (Error::Memberships(MembershipError::Store("canary".into())), 503),
            (Error::Memberships(DatabaseError::Busy.into()), 503),
            (Error::ServiceOwner, 403),
            (Error::Rule(crate::Action::Update), 403),
            (Error::NotServed("topic".into()), 403),
            (Error::NotChangeable, 403),
            (Error::NotFound, 404),
            (Error::UnknownTable(unknown("canary")), 500),
            (Error::Body(BodyError::Malformed("it ends too early".into())), 400),
            (Error::Body(BodyError::Invalid(vec![field(code::REQUIRED)])), 422),
            (Error::Query("page is a whole number from 1".into()), 400),
            (Error::Files(vec![field(code::FILE_NOT_FOUND)]), 422),
            (Error::Files(vec![field(code::FILE_TYPE)]), 422),
            (Error::Files(vec![field(code::FILE_TOO_LARGE)]), 413),
            (Error::TooLarge, 413),
            (Error::TooManyLists, 429),
            (Error::TooManyExports, 429),
            (Error::OverBudget(gatewright_base::OverBudget::Share), 503),
            (Error::ListTooSlow, 503),
            (Error::SearchBuilding, 503),
            (Error::Database(DatabaseError::SearchTooLarge), 400),
            (Error::Taken(vec![FieldError::taken("title".into(), false)]), 409),
            (Error::Taken(Vec::new()), 409),
            (Error::IdTaken, 409),
            (Error::KeyInProgress, 409),
            (Error::InUse, 409),
            (Error::TooManyDependents(10), 409),
            (Error::LostRelation, 409),
            (Error::Precondition, 412),
            (Error::Rejected("not on a Sunday".into()), 422),
            (Error::Database(DatabaseError::Busy), 503),
            (Error::Database(DatabaseError::ConnectionLost("canary".into())), 503),
            (Error::Database(DatabaseError::Deadline), 503),
            (Error::Database(DatabaseError::Serialization), 409),
            (Error::Database(DatabaseError::Outdated("canary".into())), 503),
            (Error::Database(DatabaseError::ReadOnly), 500),
            (Error::Database(DatabaseError::NotNull { column: "canary".into() }), 500),
            (Error::Database(DatabaseError::Unique { table: "canary".into(), columns: vec!["canary".into()] }), 500),
        ];
        for (error, status) in table {
            let shown = error.to_string();
            let problem = Problem::from(error);
            assert_eq!(problem.status(), status, "{shown}");
            let waits = [503, 429].contains(&status) || problem.code() == "idempotency_in_progress";
            assert_eq!(problem.headers().contains_key("retry-after"), waits, "{shown}");
            let is_of_scope = shown.contains("lacks the scope");
            let challenges = problem.headers().contains_key("www-authenticate");
            assert_eq!(challenges, status == 401 || is_of_scope, "{shown}");
            assert!(!serde_json::to_string(&problem).unwrap().contains("canary"), "{shown}");
        }
    }
}
