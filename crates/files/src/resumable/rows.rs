//! The rows of uploads that arrive in several requests.
//!
//! Each request that brings bytes takes the upload over by a fresh word (`lock`): what an earlier one still brings is not counted
//! any more, so that a client need not wait for a connection that is dead. While the bytes are put together, none takes it over.

use std::time::Duration;

use gatewright_db::{Db, Error as DatabaseError, Share, Tx, params};
use jiff::Timestamp;

use crate::ledger::{self, Account, Content, Unreserved, Upload};
use crate::options::FileOptions;

/// How many unfinished uploads an account has.
const UNFINISHED: i64 = 100;
/// How long the upload is taken while its bytes are put together. It is extended more often.
pub(super) const BUSY: Duration = Duration::from_mins(2);

/// What is known of an upload.
#[derive(Debug, Clone)]
pub(crate) struct Resumable {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) length: u64,
    /// How many bytes are stored.
    pub(crate) received: u64,
    pub(crate) expires_at: Timestamp,
    /// As the client sent it.
    pub(crate) metadata: String,
    pub(crate) keep_metadata: bool,
    /// Whether all of it has arrived, and it can be attached.
    pub(crate) is_complete: bool,
}

/// Where an upload is.
#[derive(Debug)]
pub(crate) enum Found {
    Here(Resumable),
    /// It has expired, was ended, or a record has its file.
    Gone,
    Unknown,
}

/// Why an upload is not continued.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Another request continues it.
    Taken,
    /// It has another number of bytes.
    Elsewhere,
    Gone,
    Database(DatabaseError),
}

impl From<DatabaseError> for Stopped {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Some bytes of an upload, an object of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) starts_at: u64,
    pub(crate) size: u64,
    pub(crate) number: u64,
}

/// Why an upload does not begin.
#[derive(Debug)]
pub(crate) enum Unbegun {
    /// The account has too many that are unfinished.
    TooMany,
    Unreserved(Unreserved),
}

impl From<DatabaseError> for Unbegun {
    fn from(error: DatabaseError) -> Self {
        Self::Unreserved(Unreserved::Database(error))
    }
}

impl From<Unreserved> for Unbegun {
    fn from(error: Unreserved) -> Self {
        Self::Unreserved(error)
    }
}

/// Makes the row of a fresh upload, with all of its bytes reserved.
pub(super) async fn begin(
    db: &Db,
    upload: &Upload,
    (length, metadata, keep_metadata): (u64, &str, bool),
    options: &FileOptions,
    now: Timestamp,
) -> Result<(), Unbegun> {
    let (of, options, metadata) = (upload.clone(), options.clone(), metadata.to_owned());
    let writes = async move |tx: &Tx| -> Result<(), Unbegun> {
        of.insert(tx, "partial", length, &options, now).await?;
        let sql = "SELECT count(*) AS unfinished FROM gatewright_files WHERE uploader = ?1 AND state = 'partial'";
        let row = tx.query_opt(sql, params![&of.account.uploader]).await?;
        if row.map_or(Ok(0), |row| row.get::<i64>("unfinished"))? > UNFINISHED {
            return Err(Unbegun::TooMany);
        }
        let sql = "INSERT INTO gatewright_resumable (id, length, received, numbers, word, metadata, keep_metadata) \
                   VALUES (?1, ?2, 0, 0, '', ?3, ?4)";
        tx.execute(sql, params![&of.id, ledger::integer(length), &metadata, keep_metadata]).await?;
        Ok(())
    };
    db.writing_for(upload.account.share).write(writes).await
}

/// The upload of this account.
pub(super) async fn find(db: &Db, id: &str, account: &Account, now: Timestamp) -> Result<Found, DatabaseError> {
    let sql = "SELECT f.state, f.name, f.expires_at, r.length, r.received, r.metadata, r.keep_metadata \
               FROM gatewright_resumable r JOIN gatewright_files f ON f.id = r.id WHERE r.id = ?1 AND f.uploader = ?2";
    let Some(row) = db.query_opt(sql, params![id, &account.uploader]).await? else { return Ok(Found::Unknown) };
    let number = |column: &str| row.get::<i64>(column).map(i64::unsigned_abs);
    let state: String = row.get("state")?;
    let expires_at: Timestamp = row.get("expires_at")?;
    if !matches!(&*state, "partial" | "staged") || expires_at <= now {
        return Ok(Found::Gone);
    }
    Ok(Found::Here(Resumable {
        id: id.to_owned(),
        name: row.get("name")?,
        length: number("length")?,
        received: number("received")?,
        expires_at,
        metadata: row.get("metadata")?,
        keep_metadata: row.get("keep_metadata")?,
        is_complete: state == "staged",
    }))
}

/// Takes the upload over, if it has this many bytes. Returns the numbers of its last object that counts, and of its last one:
/// what is between them never counts.
pub(super) async fn take(
    db: &Db,
    share: Share,
    id: &str,
    received: u64,
    word: &str,
    now: Timestamp,
) -> Result<(u64, u64), Stopped> {
    let (id, word) = (id.to_owned(), word.to_owned());
    let writes = async move |tx: &Tx| -> Result<(u64, u64), Stopped> {
        let sql = "UPDATE gatewright_resumable SET word = ?2, busy_until = NULL WHERE id = ?1 AND received = ?3 \
                   AND (busy_until IS NULL OR busy_until <= ?4) RETURNING numbers";
        if let Some(row) = tx.query_opt(sql, params![&id, &word, ledger::integer(received), now]).await? {
            let last = row.get::<i64>("numbers")?.unsigned_abs();
            let sql =
                "SELECT CAST(COALESCE(MAX(number), 0) AS BIGINT) AS counted FROM gatewright_pieces WHERE file = ?1";
            let row = tx.query_opt(sql, params![&id]).await?;
            let counted = row.map_or(Ok(0), |row| row.get::<i64>("counted"))?;
            return Ok((counted.unsigned_abs(), last));
        }
        let row = tx.query_opt("SELECT received FROM gatewright_resumable WHERE id = ?1", params![&id]).await?;
        match row.map(|row| row.get::<i64>("received")).transpose()? {
            None => Err(Stopped::Gone),
            Some(now) if now.unsigned_abs() == received => Err(Stopped::Taken),
            Some(_) => Err(Stopped::Elsewhere),
        }
    };
    db.writing_for(share).write(writes).await
}

/// Ends what a request does with the upload: nothing more of it counts. Returns what counts.
pub(super) async fn give_back(db: &Db, share: Share, (id, word): (&str, &str)) -> Result<Vec<Piece>, DatabaseError> {
    let sql = "UPDATE gatewright_resumable SET word = '', busy_until = NULL WHERE id = ?1 AND word = ?2";
    db.writing_for(share).execute(sql, params![id, word]).await?;
    pieces(db, id).await
}

/// The number of the next object of the upload.
pub(super) async fn number(db: &Db, share: Share, id: &str, word: &str) -> Result<u64, Stopped> {
    let sql = "UPDATE gatewright_resumable SET numbers = numbers + 1 WHERE id = ?1 AND word = ?2 RETURNING numbers";
    let rows = db.writing_for(share).write_rows(sql, params![id, word]).await?;
    match rows.first() {
        Some(row) => Ok(row.get::<i64>("numbers")?.unsigned_abs()),
        None => Err(Stopped::Taken),
    }
}

/// Counts bytes that are stored.
pub(super) async fn commit(
    db: &Db,
    share: Share,
    (id, word): (&str, &str),
    pieces: &[Piece],
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<(), Stopped> {
    let (id, word, pieces) = (id.to_owned(), word.to_owned(), pieces.to_vec());
    let writes = async move |tx: &Tx| -> Result<(), Stopped> {
        let Some(first) = pieces.first() else { return Ok(()) };
        let size: u64 = pieces.iter().map(|piece| piece.size).sum();
        let sql =
            "UPDATE gatewright_resumable SET received = received + ?3 WHERE id = ?1 AND word = ?2 AND received = ?4";
        let row = params![&id, &word, ledger::integer(size), ledger::integer(first.starts_at)];
        if tx.execute(sql, row).await? == 0 {
            return Err(Stopped::Taken);
        }
        let sql = "UPDATE gatewright_files SET expires_at = ?2, changed_at = ?3 WHERE id = ?1 AND state = 'partial'";
        if tx.execute(sql, params![&id, expires_at, now]).await? == 0 {
            return Err(Stopped::Gone);
        }
        for Piece { starts_at, size, number } in &pieces {
            let sql = "INSERT INTO gatewright_pieces (file, starts_at, size, number) VALUES (?1, ?2, ?3, ?4)";
            let [starts_at, size, number] = [*starts_at, *size, *number].map(ledger::integer);
            tx.execute(sql, params![&id, starts_at, size, number]).await?;
        }
        Ok(())
    };
    db.writing_for(share).write(writes).await
}

/// The bytes that are stored, in order.
pub(super) async fn pieces(db: &Db, id: &str) -> Result<Vec<Piece>, DatabaseError> {
    // Bytes: at most as many rows as an upload has objects.
    let sql = "SELECT starts_at, size, number FROM gatewright_pieces WHERE file = ?1 ORDER BY starts_at";
    let rows = db.query(sql, params![id]).await?;
    let piece = |row: &gatewright_db::Row| {
        let number = |column: &str| row.get::<i64>(column).map(i64::unsigned_abs);
        Ok(Piece { starts_at: number("starts_at")?, size: number("size")?, number: number("number")? })
    };
    rows.iter().map(piece).collect()
}

/// No other request takes the upload over until then; `None` ends that.
pub(super) async fn busy(
    db: &Db,
    share: Share,
    (id, word): (&str, &str),
    until: Option<Timestamp>,
) -> Result<(), Stopped> {
    let sql = "UPDATE gatewright_resumable SET busy_until = ?3 WHERE id = ?1 AND word = ?2";
    match db.writing_for(share).execute(sql, params![id, word, until]).await? {
        0 => Err(Stopped::Taken),
        _ => Ok(()),
    }
}

/// The file is whole, and can be attached.
pub(super) async fn stage(
    db: &Db,
    upload: &Upload,
    word: &str,
    content: &Content,
    now: Timestamp,
) -> Result<(), Stopped> {
    let (of, word, content) = (upload.clone(), word.to_owned(), content.clone());
    let writes = async move |tx: &Tx| -> Result<(), Stopped> {
        let sql = "UPDATE gatewright_resumable SET received = length, busy_until = NULL, word = '' WHERE id = ?1 AND word = ?2";
        if tx.execute(sql, params![&of.id, &word]).await? == 0 {
            return Err(Stopped::Taken);
        }
        if !of.stage_in(tx, &content, now).await? {
            return Err(Stopped::Gone);
        }
        tx.execute("DELETE FROM gatewright_pieces WHERE file = ?1", params![&of.id]).await?;
        Ok(())
    };
    db.writing_for(upload.account.share).write(writes).await
}

/// How many objects of the upload may be in the store.
pub(crate) async fn numbers(db: &Db, id: &str) -> Result<u64, DatabaseError> {
    let row = db.query_opt("SELECT numbers FROM gatewright_resumable WHERE id = ?1", params![id]).await?;
    row.map_or(Ok(0), |row| row.get::<i64>("numbers").map(i64::unsigned_abs))
}

/// The objects of the upload are deleted.
pub(super) async fn emptied(db: &Db, id: &str) -> Result<(), DatabaseError> {
    db.execute("UPDATE gatewright_resumable SET numbers = 0 WHERE id = ?1", params![id]).await.map(|_| ())
}

/// Some uploads whose objects are not needed any more, without the first ones: their files are whole.
pub(crate) async fn left(db: &Db, skipped: u64) -> Result<Vec<String>, DatabaseError> {
    let sql = "SELECT r.id FROM gatewright_resumable r JOIN gatewright_files f ON f.id = r.id \
               WHERE r.numbers > 0 AND f.state = 'attached' ORDER BY r.id LIMIT 100 OFFSET ?1";
    let rows = db.query(sql, params![ledger::integer(skipped)]).await?;
    rows.iter().map(|row| row.get("id")).collect()
}
