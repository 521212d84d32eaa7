use tokio_postgres::error::{DbError, SqlState};

use crate::Error;

/// The words by which a stale plan is known once it has been classified.
const STALE: &str = "cached plan must not change result type";

/// The error of Postgres for a refused connection, and how to fix it.
pub(super) fn with_hint(refusal: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let code = refusal.downcast_ref::<DbError>().map(DbError::code);
    let hint =
        if code == Some(&SqlState::INVALID_CATALOG_NAME) { "; create it, for example with createdb" } else { "" };
    format!("{refusal}{hint}")
}

/// Converts an error that Postgres reports.
pub(super) fn classify(error: tokio_postgres::Error, context: &str) -> Error {
    let Some(reported) = error.as_db_error() else {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        // Without a report from the server the connection failed, except if a value could not be encoded.
        return if error.to_string().starts_with("error serializing parameter") {
            Error::other(context, error)
        } else {
            Error::ConnectionLost(cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")))
        };
    };
    let table = || reported.table().unwrap_or_default().to_owned();
    match reported.code() {
        &SqlState::UNIQUE_VIOLATION => Error::Unique { table: table(), columns: key_columns(reported.detail()) },
        &SqlState::FOREIGN_KEY_VIOLATION | &SqlState::RESTRICT_VIOLATION => {
            Error::ForeignKey { constraint: reported.constraint().map(str::to_owned) }
        }
        &SqlState::NOT_NULL_VIOLATION => Error::NotNull { column: reported.column().unwrap_or_default().to_owned() },
        &SqlState::CHECK_VIOLATION => Error::Check(reported.constraint().unwrap_or_default().to_owned()),
        &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => Error::Serialization,
        &SqlState::QUERY_CANCELED => Error::Deadline,
        &SqlState::LOCK_NOT_AVAILABLE => Error::Locked,
        &SqlState::TOO_MANY_CONNECTIONS => Error::Busy,
        &SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly,
        &SqlState::DISK_FULL => Error::DiskFull,
        &SqlState::UNDEFINED_COLUMN | &SqlState::UNDEFINED_TABLE => Error::Outdated(reported.message().to_owned()),
        &SqlState::ADMIN_SHUTDOWN
        | &SqlState::CRASH_SHUTDOWN
        | &SqlState::CANNOT_CONNECT_NOW
        | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Error::ConnectionLost(reported.message().to_owned()),
        _ => Error::other(context, reported.clone()),
    }
}

/// Whether a prepared statement was overtaken by a change of its tables.
pub(super) fn is_stale_plan(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|reported| {
        reported.code() == &SqlState::INVALID_SQL_STATEMENT_NAME || reported.message().contains(STALE)
    })
}

/// Whether the statement was refused before it did anything, for a reason that preparing it again removes.
pub(super) fn is_retryable(error: &Error) -> bool {
    matches!(error, Error::Other { source, .. } if source.to_string().contains(STALE))
}

/// Reads `Key (owner, slug)=(…) already exists.`
fn key_columns(detail: Option<&str>) -> Vec<String> {
    let list = detail.and_then(|detail| detail.strip_prefix("Key (")).and_then(|rest| rest.split_once(")=("));
    list.map_or_else(Vec::new, |(columns, _)| {
        columns.split(", ").map(|name| name.trim_matches('"').to_owned()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_unique_violation_are_read_from_the_detail() {
        let columns = |detail| key_columns(Some(detail));
        assert_eq!(columns("Key (email)=(a@b.c) already exists."), ["email"]);
        assert_eq!(columns("Key (owner, \"Slug\")=(a, b)=(c) already exists."), ["owner", "Slug"]);
        assert!(key_columns(None).is_empty());
    }
}
