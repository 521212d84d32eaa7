//! The rows of files: what is reserved, and the steps from one state to the next.

use std::time::Duration;

use gatewright_db::{Db, Error as DatabaseError, Row, Share, Tx, Value, params};
use gatewright_entities::files::{FileInfo, RELEASED};
use jiff::Timestamp;

use crate::options::FileOptions;

/// The tables with more of a file, and the columns with its id.
const BESIDE: [(&str, &str); 3] =
    [("gatewright_thumbnails", "file"), ("gatewright_pieces", "file"), ("gatewright_resumable", "id")];
/// A file can be attached.
const STAGE: &str = "UPDATE gatewright_files SET state = 'staged', size = ?2, content_type = ?3, sha256 = ?4, \
                     changed_at = ?5, has_metadata = ?6, expires_at = ?7 WHERE id = ?1 AND state IN ('uploading', 'partial')";
/// How many rows one statement of the sweep takes.
const SWEPT: usize = 100;
/// What the owner of the row of a hold begins with.
const HOLD: &str = "hold:";
/// Whether a row is a hold. The range is found by the key, with every collation. Earlier versions had one row for all.
const IS_HOLD: &str = "owner >= 'hold' AND owner < 'hole' AND (owner = 'hold' OR owner LIKE 'hold:%')";
/// After how long without a sign of life an upload counts as dead. Each shows one more often.
const DEAD: Duration = Duration::from_mins(10);

/// Whose bytes are counted, and who may attach the file.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) owner: Owner,
    pub(crate) uploader: String,
    /// The share of the database's writers.
    pub(crate) share: Share,
}

/// Whose bytes are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An account, by its name as an uploader.
    Account(String),
    /// The network of an anonymous caller.
    Network(String),
}

impl Owner {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Account(name) | Self::Network(name) => name,
        }
    }
}

/// Why bytes cannot be reserved.
#[derive(Debug)]
pub(crate) enum Unreserved {
    /// A quota would be exceeded.
    Quota,
    /// The upload has ended meanwhile.
    Ended,
    Database(DatabaseError),
}

impl From<DatabaseError> for Unreserved {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// What is known of a file whose bytes are stored.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) kind: String,
    pub(crate) sha256: String,
    /// Whether it is an image from which nothing was removed.
    pub(crate) has_metadata: bool,
}

/// A file that is being uploaded.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) account: Account,
    /// Until when it can be attached.
    pub(crate) expires_at: Timestamp,
}

impl Upload {
    /// Makes the row of the file, with `bytes` reserved.
    pub(crate) async fn begin(
        &self,
        db: &Db,
        bytes: u64,
        options: &FileOptions,
        now: Timestamp,
    ) -> Result<(), Unreserved> {
        let (upload, options) = (self.clone(), options.clone());
        let work = async move |tx: &Tx| upload.insert(tx, "uploading", bytes, &options, now).await;
        db.writing_for(self.account.share).write(work).await
    }

    /// Makes the row within a transaction.
    pub(crate) async fn insert(
        &self,
        tx: &Tx,
        state: &'static str,
        bytes: u64,
        options: &FileOptions,
        now: Timestamp,
    ) -> Result<(), Unreserved> {
        self.account.take(tx, bytes, options, now).await?;
        let sql = "INSERT INTO gatewright_files (id, state, owner, uploader, name, size, content_type, sha256, \
                   has_metadata, created_at, changed_at, expires_at) \
                   VALUES (?1, ?8, ?2, ?3, ?4, ?5, '', '', FALSE, ?6, ?6, ?7)";
        let Account { owner, uploader, .. } = &self.account;
        let row = params![&self.id, owner.as_str(), uploader, &self.name, integer(bytes), now, self.expires_at, state];
        tx.execute(sql, row).await?;
        Ok(())
    }

    /// Reserves `bytes` more; none shows that the upload is alive.
    pub(crate) async fn extend(
        &self,
        db: &Db,
        bytes: u64,
        options: &FileOptions,
        now: Timestamp,
    ) -> Result<(), Unreserved> {
        let (upload, options) = (self.clone(), options.clone());
        let work = async move |tx: &Tx| -> Result<(), Unreserved> {
            if bytes > 0 {
                upload.account.take(tx, bytes, &options, now).await?;
            }
            let sql = "UPDATE gatewright_files SET size = size + ?2, changed_at = ?3 WHERE id = ?1 AND state IN ('uploading', 'partial')";
            match tx.execute(sql, params![&upload.id, integer(bytes), now]).await? {
                0 => Err(Unreserved::Ended),
                _ => Ok(()),
            }
        };
        db.writing_for(self.account.share).write(work).await
    }

    /// The file can be attached.
    pub(crate) async fn stage(&self, db: &Db, content: &Content, now: Timestamp) -> Result<(), Unreserved> {
        match db.writing_for(self.account.share).execute(STAGE, self.staged(content, now)).await? {
            0 => Err(Unreserved::Ended),
            _ => Ok(()),
        }
    }

    /// The parameters of [`STAGE`].
    fn staged(&self, content: &Content, now: Timestamp) -> Vec<Value> {
        let Content { size, kind, sha256, has_metadata } = content;
        params![&self.id, integer(*size), kind, sha256, now, *has_metadata, self.expires_at]
    }

    /// The file can be attached after this transaction. False if the upload has ended.
    pub(crate) async fn stage_in(&self, tx: &Tx, content: &Content, now: Timestamp) -> Result<bool, DatabaseError> {
        Ok(tx.execute(STAGE, self.staged(content, now)).await? > 0)
    }
}

impl Account {
    /// Counts `more` bytes, or refuses. Others who upload for the same owner wait for this transaction.
    async fn take(&self, tx: &Tx, more: u64, options: &FileOptions, now: Timestamp) -> Result<(), Unreserved> {
        let day = now.to_string().split('T').next().unwrap_or_default().to_owned();
        let sql = "INSERT INTO gatewright_file_owners (owner, day, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (owner) DO UPDATE SET \
                   bytes = excluded.bytes + CASE WHEN gatewright_file_owners.day = excluded.day \
                   THEN gatewright_file_owners.bytes ELSE 0 END, day = excluded.day RETURNING bytes";
        let counted = tx.query_opt(sql, params![self.owner.as_str(), day, integer(more)]).await?;
        let today = number(counted.as_ref(), "bytes")?;
        if let Owner::Network(_) = self.owner {
            return if today > options.anonymous_bytes_per_day { Err(Unreserved::Quota) } else { Ok(()) };
        }
        let exceeds = |used: u64, limit: u64| used.saturating_add(more) > limit;
        let staged = self.sum(tx, "'uploading', 'partial', 'staged'").await?;
        let quota = options.quota_per_user_bytes;
        // An account may have many files: they are added up only where that decides something.
        let all = if quota > 0 { staged.saturating_add(self.sum(tx, "'attached'").await?) } else { 0 };
        let is_beyond = exceeds(staged, options.staged_per_user_bytes) || (quota > 0 && exceeds(all, quota));
        if is_beyond { Err(Unreserved::Quota) } else { Ok(()) }
    }

    /// The bytes of the owner's files in some states. What no record has any more is not counted, although its bytes are there for
    /// a while.
    async fn sum(&self, tx: &Tx, states: &str) -> Result<u64, DatabaseError> {
        let sql = format!(
            "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) AS bytes FROM gatewright_files WHERE owner = ?1 AND state IN \
             ({states}) AND NOT EXISTS (SELECT 1 FROM {RELEASED} WHERE {RELEASED}.id = gatewright_files.id)"
        );
        number(tx.query_opt(sql, params![self.owner.as_str()]).await?.as_ref(), "bytes")
    }
}

/// A staged file becomes that of a record. `None` if it is not this uploader's, or not free. Also
/// whether it is an image from which nothing was removed.
pub(crate) async fn attach(
    tx: &Tx,
    id: &str,
    uploader: &str,
    (table, field, record): (&str, &str, &str),
    now: Timestamp,
) -> Result<Option<(FileInfo, bool)>, DatabaseError> {
    let sql = "UPDATE gatewright_files SET state = 'attached', table_name = ?3, field = ?4, record = ?5, changed_at = ?6 \
               WHERE id = ?1 AND state = 'staged' AND uploader = ?2 AND expires_at > ?6 \
               RETURNING id, name, size, content_type, sha256, has_metadata";
    let row = tx.query_opt(sql, params![id, uploader, table, field, record, now]).await?;
    row.map(|row| Ok((info(&row)?, row.get("has_metadata")?))).transpose()
}

fn info(row: &Row) -> Result<FileInfo, DatabaseError> {
    Ok(FileInfo {
        id: row.get("id")?,
        name: row.get("name")?,
        size: row.get::<i64>("size")?.unsigned_abs(),
        content_type: row.get("content_type")?,
        sha256: row.get("sha256")?,
    })
}

/// Files that nobody attached are not kept: those that these uploaders staged or begun.
pub(crate) async fn discard(db: &Db, share: Share, uploader: &str, now: Timestamp) -> Result<(), DatabaseError> {
    let sql = "UPDATE gatewright_files SET state = 'gone', changed_at = ?2 WHERE uploader = ?1 AND state IN ('uploading', 'staged')";
    db.writing_for(share).execute(sql, params![uploader, now]).await.map(|_| ())
}

/// One upload has failed.
pub(crate) async fn give_up(db: &Db, share: Share, id: &str, now: Timestamp) -> Result<(), DatabaseError> {
    let sql = "UPDATE gatewright_files SET state = 'gone', changed_at = ?2 WHERE id = ?1 AND state IN ('uploading', 'partial', 'staged')";
    db.writing_for(share).execute(sql, params![id, now]).await.map(|_| ())
}

/// What no record has any more, uploads that have expired, and dead ones, are gone. Returns how many.
pub(crate) async fn release(db: &Db, now: Timestamp) -> Result<u64, DatabaseError> {
    let work = async move |tx: &Tx| -> Result<u64, DatabaseError> {
        let sql = format!("SELECT id FROM {RELEASED} ORDER BY id LIMIT {SWEPT}");
        let rows = tx.query(sql, Vec::new()).await?;
        let mut released = 0;
        for row in &rows {
            let id: String = row.get("id")?;
            let gone = "UPDATE gatewright_files SET state = 'gone', changed_at = ?2 WHERE id = ?1 AND state <> 'gone'";
            released += tx.execute(gone, params![&id, now]).await?;
            tx.execute(format!("DELETE FROM {RELEASED} WHERE id = ?1"), params![&id]).await?;
        }
        Ok(released)
    };
    let mut released = db.write(work).await?;
    let gone = "UPDATE gatewright_files SET state = 'gone', changed_at = ?1 WHERE";
    let expired = format!("{gone} state IN ('partial', 'staged') AND expires_at <= ?1");
    released += db.execute(expired, params![now]).await?;
    let dead = format!("{gone} state = 'uploading' AND changed_at <= ?2");
    released += db.execute(dead, params![now, earlier(now, DEAD)]).await?;
    Ok(released)
}

/// The ids of some files whose bytes are to be deleted, without the first ones: those that are gone since that time. None while a
/// backup holds them.
pub(crate) async fn gone(
    db: &Db,
    since: Timestamp,
    now: Timestamp,
    skipped: u64,
) -> Result<Vec<String>, DatabaseError> {
    let sql = format!(
        "SELECT id FROM gatewright_files WHERE state = 'gone' AND changed_at <= ?1 AND NOT EXISTS \
         (SELECT 1 FROM gatewright_file_owners WHERE {IS_HOLD} AND bytes > ?2) \
         ORDER BY changed_at, id LIMIT {SWEPT} OFFSET ?3"
    );
    let rows = db.query(sql, params![since, now.as_second(), integer(skipped)]).await?;
    rows.iter().map(|row| row.get("id")).collect()
}

/// No server deletes a file until then. Each hold has a name of its own. Those that ended before now are forgotten.
pub(crate) async fn hold(db: &Db, name: &str, now: Timestamp, until: Timestamp) -> Result<(), DatabaseError> {
    let name = format!("{HOLD}{name}");
    let work = async move |tx: &Tx| -> Result<(), DatabaseError> {
        let sql = format!("DELETE FROM gatewright_file_owners WHERE {IS_HOLD} AND bytes < ?1");
        tx.execute(sql, params![now.as_second()]).await?;
        let sql = "INSERT INTO gatewright_file_owners (owner, day, bytes) VALUES (?1, '', ?2)";
        tx.execute(sql, params![&name, until.as_second()]).await?;
        Ok(())
    };
    db.write(work).await
}

/// A hold lasts until then. One that was released does not come back.
pub(crate) async fn extend_hold(db: &Db, name: &str, until: Timestamp) -> Result<(), DatabaseError> {
    let sql = "UPDATE gatewright_file_owners SET bytes = ?2 WHERE owner = ?1";
    db.execute(sql, params![format!("{HOLD}{name}"), until.as_second()]).await.map(|_| ())
}

/// Servers delete files again, unless there is another hold.
pub(crate) async fn release_hold(db: &Db, name: &str) -> Result<(), DatabaseError> {
    let sql = "DELETE FROM gatewright_file_owners WHERE owner = ?1";
    db.execute(sql, params![format!("{HOLD}{name}")]).await.map(|_| ())
}

/// A database that was restored is held by none.
pub(crate) async fn release_all(db: &Db) -> Result<(), DatabaseError> {
    db.execute(format!("DELETE FROM gatewright_file_owners WHERE {IS_HOLD}"), Vec::new()).await.map(|_| ())
}

/// The bytes of a file are deleted.
pub(crate) async fn forget(db: &Db, id: &str) -> Result<(), DatabaseError> {
    let id = id.to_owned();
    let work = async move |tx: &Tx| -> Result<(), DatabaseError> {
        for (table, column) in BESIDE {
            tx.execute(format!("DELETE FROM {table} WHERE {column} = ?1"), params![&id]).await?;
        }
        tx.execute("DELETE FROM gatewright_files WHERE id = ?1 AND state = 'gone'", params![&id]).await?;
        Ok(())
    };
    db.write(work).await
}

/// The name by which a store knows its database: `fresh`, unless it has one already.
pub(crate) async fn name_of_store(db: &Db, fresh: &str) -> Result<String, DatabaseError> {
    let sql = "INSERT INTO gatewright_file_owners (owner, day, bytes) VALUES ('store', ?1, 0) \
               ON CONFLICT (owner) DO UPDATE SET bytes = 0 RETURNING day";
    let rows = db.write_rows(sql, params![fresh]).await?;
    rows.first().map_or(Ok(fresh.to_owned()), |row| row.get("day"))
}

/// Whether there is a row of the file.
pub(crate) async fn is_known(db: &Db, id: &str) -> Result<bool, DatabaseError> {
    let row = db.query_opt("SELECT id FROM gatewright_files WHERE id = ?1", params![id]).await?;
    Ok(row.is_some())
}

fn number(row: Option<&Row>, column: &str) -> Result<u64, DatabaseError> {
    row.map_or(Ok(0), |row| row.get::<i64>(column).map(i64::unsigned_abs))
}

pub(crate) fn integer(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

pub(crate) fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}
