//! Refusals of uploads and downloads as answers.

use std::time::Duration;

use gatewright_db::Error as DatabaseError;
use gatewright_entities::operations::Error as OperationError;
use gatewright_http::Problem;
use http::StatusCode;

use crate::ledger::Unreserved;
use crate::store::StoreError;

/// When to ask a store again that did not answer.
const RETRY: Duration = Duration::from_secs(5);

/// The 413 of a file with more bytes than are taken.
pub(crate) fn too_large(most: u64) -> Problem {
    let detail = format!("the file has more than {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", detail)
}

/// The 422 of a file whose content is not taken.
pub(crate) fn wrong_type(content_type: &str, accept: &[String]) -> Problem {
    let detail = format!("the content is {content_type}; accepted: {}", accept.join(", "));
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "file_type", detail)
}

/// The 503 of a store that did not do something, or 404 for a file that it does not have.
pub(crate) fn storage(error: &StoreError) -> Problem {
    match error {
        StoreError::NotFound => {
            tracing::error!("the store lacks the bytes of a file that a record has");
            Problem::not_found("the bytes of the file are not there")
        }
        StoreError::Full => {
            tracing::warn!("an upload was refused: with it, the free space would be below storage.reserve_bytes");
            Problem::unavailable("there is too little free space for files", RETRY).with_code("storage_full")
        }
        error => unreadable(error),
    }
}

/// The 503 of bytes that the store began to send.
pub(crate) fn unreadable(error: &dyn std::fmt::Display) -> Problem {
    tracing::warn!(%error, "the store of files failed");
    Problem::unavailable("the store of files cannot answer right now", RETRY).with_code("storage_unavailable")
}

pub(crate) fn unreserved(error: Unreserved) -> Problem {
    match error {
        Unreserved::Quota => {
            let detail = "the files of this caller would have more bytes than are allowed";
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "quota_exceeded", detail)
        }
        Unreserved::Ended => Problem::unavailable("the upload has ended; begin again", RETRY),
        Unreserved::Database(error) => database(error),
    }
}

pub(crate) fn database(error: DatabaseError) -> Problem {
    OperationError::Database(error).into()
}
