//! The rows of thumbnails. Each is there from before the first byte of its object until after the object is deleted.

use gatewright_db::{Db, Error as DatabaseError, Share, Tx, params};
use jiff::Timestamp;

/// What is known of a thumbnail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is in the store.
    Made(Made),
    /// The image has too many pixels.
    TooLarge,
    /// The image is damaged.
    Unreadable,
}

/// A thumbnail in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) bytes: u64,
    pub(crate) content_type: String,
    pub(crate) sha256: String,
}

const MAKING: &str = "making";
const MADE: &str = "made";
const TOO_LARGE: &str = "too_large";
const UNREADABLE: &str = "unreadable";

/// What is known of a thumbnail. One that is being made, or whose making was interrupted, is not known.
pub(crate) async fn find(db: &Db, file: &str, size: &str) -> Result<Option<Known>, DatabaseError> {
    let sql = "SELECT state, bytes, content_type, sha256 FROM gatewright_thumbnails WHERE file = ?1 AND size = ?2";
    let Some(row) = db.query_opt(sql, params![file, size]).await? else { return Ok(None) };
    Ok(match &*row.get::<String>("state")? {
        MADE => Some(Known::Made(Made {
            bytes: row.get::<i64>("bytes")?.unsigned_abs(),
            content_type: row.get("content_type")?,
            sha256: row.get("sha256")?,
        })),
        TOO_LARGE => Some(Known::TooLarge),
        UNREADABLE => Some(Known::Unreadable),
        _ => None,
    })
}

/// A thumbnail is about to be made. False if no record has the file any more.
pub(crate) async fn begin(
    db: &Db,
    share: Share,
    file: &str,
    size: &str,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let (file, size) = (file.to_owned(), size.to_owned());
    let work = async move |tx: &Tx| -> Result<bool, DatabaseError> {
        let sql = "SELECT id FROM gatewright_files WHERE id = ?1 AND state = 'attached'";
        if tx.query_opt(sql, params![&file]).await?.is_none() {
            return Ok(false);
        }
        let sql = "INSERT INTO gatewright_thumbnails (file, size, state, bytes, content_type, sha256, changed_at) \
                   VALUES (?1, ?2, ?3, 0, '', '', ?4) ON CONFLICT (file, size) DO UPDATE SET state = excluded.state, \
                   changed_at = excluded.changed_at";
        tx.execute(sql, params![&file, &size, MAKING, now]).await?;
        Ok(true)
    };
    db.writing_for(share).write(work).await
}

/// What has become of it. False if its file was deleted meanwhile.
pub(crate) async fn end(
    db: &Db,
    share: Share,
    file: &str,
    size: &str,
    known: &Known,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let (state, bytes, content_type, sha256) = match known {
        Known::Made(Made { bytes, content_type, sha256 }) => {
            (MADE, i64::try_from(*bytes).unwrap_or(i64::MAX), content_type.as_str(), sha256.as_str())
        }
        Known::TooLarge => (TOO_LARGE, 0, "", ""),
        Known::Unreadable => (UNREADABLE, 0, "", ""),
    };
    let sql = "UPDATE gatewright_thumbnails SET state = ?3, bytes = ?4, content_type = ?5, sha256 = ?6, changed_at = ?7 \
               WHERE file = ?1 AND size = ?2";
    let row = params![file, size, state, bytes, content_type, sha256, now];
    Ok(db.writing_for(share).execute(sql, row).await? > 0)
}

/// The sizes of a file's thumbnails.
pub(crate) async fn sizes(db: &Db, file: &str) -> Result<Vec<String>, DatabaseError> {
    // Bytes: at most 20 sizes of a declaration, and those of earlier ones.
    let rows = db.query("SELECT size FROM gatewright_thumbnails WHERE file = ?1", params![file]).await?;
    rows.iter().map(|row| row.get("size")).collect()
}
