use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::Error;

/// Converts an error that SQLite reports.
pub(super) fn classify(error: rusqlite::Error, sql: &str) -> Error {
    let (failure, message) = match &error {
        rusqlite::Error::SqliteFailure(failure, message) => (failure, message.as_deref().unwrap_or_default()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error, &**msg),
        _ => return Error::other(sql, error),
    };
    match failure.extended_code {
        ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
            unique(message)
        }
        // ON DELETE RESTRICT is carried out by a hidden trigger and reported as one.
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => Error::ForeignKey { constraint: None },
        ffi::SQLITE_CONSTRAINT_TRIGGER if message.starts_with("FOREIGN KEY") => Error::ForeignKey { constraint: None },
        ffi::SQLITE_CONSTRAINT_NOTNULL => Error::NotNull { column: named_columns(message).1.concat() },
        ffi::SQLITE_CONSTRAINT_CHECK => Error::Check(message.to_owned()),
        _ => match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy,
            ErrorCode::OperationInterrupted if super::limit::is_search_spent() => Error::SearchTooLarge,
            ErrorCode::OperationInterrupted => Error::Deadline,
            ErrorCode::ReadOnly => Error::ReadOnly,
            ErrorCode::DiskFull => Error::DiskFull,
            ErrorCode::Unknown if is_outdated(message) => Error::Outdated(message.to_owned()),
            _ => Error::other(sql, error),
        },
    }
}

/// Whether a statement names a table or column that does not exist. SQLite has no error code for it.
fn is_outdated(message: &str) -> bool {
    ["no such column: ", "no such table: "].iter().any(|start| message.starts_with(start))
        || message.contains(" has no column named ")
}

fn unique(message: &str) -> Error {
    let (table, columns) = named_columns(message);
    Error::Unique { table, columns }
}

/// Reads `… failed: posts.owner, posts.slug`. An index over an expression is named instead: `… failed: index 'x'`.
fn named_columns(message: &str) -> (String, Vec<String>) {
    let list = message.split_once("failed: ").map_or("", |(_, list)| list);
    let mut table = String::new();
    let columns = list
        .split(", ")
        .filter_map(|name| name.split_once('.'))
        .map(|(of, column)| {
            of.clone_into(&mut table);
            column.to_owned()
        })
        .collect();
    (table, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_unique_violation_are_read_from_the_message() {
        let named = named_columns("UNIQUE constraint failed: posts.owner, posts.slug");
        assert_eq!(named, ("posts".to_owned(), vec!["owner".to_owned(), "slug".to_owned()]));
        assert_eq!(named_columns("UNIQUE constraint failed: index 'by_lower_name'"), (String::new(), vec![]));
    }
}
