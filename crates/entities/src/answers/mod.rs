//! Answers that are kept under the keys of their callers (`Idempotency-Key`), so that a repeated write happens once.
//!
//! A key is claimed before the write, in a transaction of its own: a second request with it finds the claim. The answer is
//! stored in the transaction of the write, and only if the claim is still there: a server that is slow and one that took
//! over its key after 30 seconds cannot both write. Keys are stored as hashes.

mod keeping;
mod schema;

use std::fmt::Write;
use std::time::Duration;

use gatewright_base::{Ambient, UserId};
use gatewright_db::{Db, Error as DatabaseError, MigrateError, Share, Tx, Value, dialect, params};
use jiff::Timestamp;
use serde_json::json;

pub(crate) use keeping::Keeping;
pub use keeping::{Render, Written};
pub use schema::{COMPONENT, STEPS};

/// How long an answer is kept.
const KEEP: Duration = Duration::from_hours(24);
/// After which time a key without an answer is free: its server has died.
const CLAIM: Duration = Duration::from_secs(30);
/// The most keys of one caller.
const MAX_KEYS: i64 = 1_000;
/// The most bytes of the answers of one caller.
const MAX_BYTES: i64 = 16 << 20;
/// Answers up to this size are counted at the next claim, larger ones when they are stored.
const SMALL: i64 = 64 << 10;
/// How many rows one statement of the sweep removes.
const SWEPT: i64 = 500;

/// Settings of [`KeptAnswers`].
#[derive(Debug, Clone)]
pub struct AnswerOptions {
    /// The most bytes of all answers. The oldest are removed. Default: 1 GiB.
    pub max_bytes: u64,
    /// Whether the tables are created. Default: they are.
    pub create_tables: bool,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self { max_bytes: 1 << 30, create_tables: true }
    }
}

/// Why the table of kept answers could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswersInitError {
    /// The table could not be created.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// It is missing.
    #[error("the database lacks the table {0}; run `gatewright migrate`")]
    Missing(&'static str),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// The table of kept answers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KeptAnswers {
    db: Db,
    ambient: Ambient,
    max_bytes: i64,
}

/// An answer, as it is kept and repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The HTTP status.
    pub status: u16,
    /// Names and values of headers, besides those that every answer has.
    pub headers: Vec<(String, String)>,
    /// The body, which is JSON; empty if there is none.
    pub body: Vec<u8>,
}

/// What a key is claimed for. All parts are hashes.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The caller, the tenant and the key.
    pub(crate) id: String,
    /// The account.
    pub(crate) caller: String,
    /// Everything that the answer depends on.
    pub(crate) request: String,
    /// The roles and scopes of the caller.
    pub(crate) rights: String,
}

/// A claimed key, whose answer is not known yet.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    id: String,
    caller: String,
    /// What distinguishes it from another claim of the key.
    token: String,
    /// The share of the database's writers that the caller's writes count against.
    share: Share,
}

/// What becomes of a request with a key.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is the first.
    New(Claim),
    /// It was answered before.
    Answered(KeptAnswer),
    /// Another one is in progress.
    InProgress,
    /// The key belongs to another request, or to other rights.
    Reused,
    /// The answer contained a record that was deleted.
    Deleted,
}

/// The row of a key.
struct Row {
    request: String,
    rights: String,
    claim: String,
    claimed_at: Timestamp,
    status: Option<i64>,
    headers: Option<String>,
    body: Option<String>,
}

impl KeptAnswers {
    /// Opens the table.
    ///
    /// Fails if a table is missing and is not to be created.
    pub async fn open(db: Db, ambient: Ambient, options: AnswerOptions) -> Result<Self, AnswersInitError> {
        if options.create_tables {
            gatewright_db::migrate(&db, COMPONENT, STEPS).await?;
        }
        for table in ["gatewright_answers", "gatewright_answer_records"] {
            if gatewright_db::schema::describe(&db, table).await?.is_none() {
                return Err(AnswersInitError::Missing(table));
            }
        }
        let max_bytes = i64::try_from(options.max_bytes).unwrap_or(i64::MAX);
        Ok(Self { db, ambient, max_bytes })
    }

    /// Claims a key, or says why not.
    pub(crate) async fn begin(&self, share: Share, asked: Asked) -> Result<Begun, DatabaseError> {
        let token: [u8; 16] = self.ambient.bytes();
        let claim = Claim { id: asked.id.clone(), caller: asked.caller.clone(), token: hex(&token), share };
        let now = self.ambient.now();
        self.db.writing_for(share).write(async move |tx: &Tx| begin(tx, &asked, &claim, now).await).await
    }

    /// Keeps the answer of a request that wrote nothing.
    pub(crate) async fn refuse(&self, claim: &Claim, answer: KeptAnswer) -> Result<(), DatabaseError> {
        let claim = claim.clone();
        self.db
            .writing_for(claim.share)
            .write(async move |tx: &Tx| store(tx, &claim, &answer, &[]).await.map(|_| ()))
            .await
    }

    /// Gives a key back that has no answer.
    pub(crate) async fn release(&self, claim: &Claim) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM gatewright_answers WHERE id = ?1 AND claim = ?2 AND status IS NULL";
        self.db.writing_for(claim.share).execute(sql, params![&claim.id, &claim.token]).await.map(|_| ())
    }

    /// Removes the answers of an account.
    pub async fn forget(&self, user: &UserId) -> Result<(), DatabaseError> {
        self.db.execute("DELETE FROM gatewright_answers WHERE caller = ?1", params![user]).await.map(|_| ())
    }

    /// Removes answers that are old, and the oldest if all together are too large. Returns how many.
    pub async fn sweep(&self) -> Result<u64, DatabaseError> {
        let before = earlier(self.ambient.now(), KEEP);
        let old = format!(
            "DELETE FROM gatewright_answers WHERE id IN (SELECT id FROM gatewright_answers WHERE claimed_at < ?1 \
             ORDER BY claimed_at LIMIT {SWEPT})"
        );
        let mut removed = 0;
        loop {
            let count = self.db.execute(old.clone(), vec![Value::Time(before)]).await?;
            removed += count;
            if count < SWEPT.unsigned_abs() {
                break;
            }
        }
        let oldest =
            format!("SELECT id, bytes FROM gatewright_answers WHERE bytes > 0 ORDER BY claimed_at, id LIMIT {SWEPT}");
        loop {
            let sum = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes FROM gatewright_answers";
            let row = self.db.query_opt(sum, Vec::new()).await?;
            let mut beyond = row.map(|row| row.get::<i64>("bytes")).transpose()?.unwrap_or(0) - self.max_bytes;
            let mut ids: Vec<String> = Vec::new();
            for row in self.db.query(oldest.clone(), Vec::new()).await? {
                if beyond <= 0 {
                    break;
                }
                beyond -= row.get::<i64>("bytes")?;
                ids.push(row.get("id")?);
            }
            if ids.is_empty() {
                return Ok(removed);
            }
            let among = dialect::is_among(self.db.engine(), "id", "?1");
            let sql = format!("DELETE FROM gatewright_answers WHERE {among}");
            removed += self.db.execute(sql, vec![Value::Text(json!(ids).to_string())]).await?;
        }
    }
}

async fn begin(tx: &Tx, asked: &Asked, claim: &Claim, now: Timestamp) -> Result<Begun, DatabaseError> {
    let Asked { id, caller, request, rights } = asked;
    let insert = "INSERT INTO gatewright_answers (id, caller, request, rights, claim, claimed_at) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING";
    let mut values = params![id, caller, request, rights, &claim.token];
    values.push(Value::Time(now));
    if tx.execute(insert, values).await? == 1 {
        trim(tx, caller).await?;
        return Ok(Begun::New(claim.clone()));
    }
    // Bytes: of one answer, which is at most 8 MiB.
    let select = format!(
        "SELECT request, rights, claim, claimed_at, status, headers, body FROM gatewright_answers WHERE id = ?1{}",
        dialect::for_update(tx.engine())
    );
    let Some(row) = tx.query_opt(select, params![id]).await? else { return Ok(Begun::InProgress) };
    let row = Row {
        request: row.get("request")?,
        rights: row.get("rights")?,
        claim: row.get("claim")?,
        claimed_at: row.get("claimed_at")?,
        status: row.get("status")?,
        headers: row.get("headers")?,
        body: row.get("body")?,
    };
    let is_dead = row.status.is_none() && row.claimed_at < earlier(now, CLAIM);
    if is_dead || row.claimed_at < earlier(now, KEEP) {
        let again = "UPDATE gatewright_answers SET request = ?3, rights = ?4, claim = ?5, claimed_at = ?6, status = NULL, \
            headers = NULL, body = NULL, bytes = 0 WHERE id = ?1 AND claim = ?2";
        let mut values = params![id, &row.claim, request, rights, &claim.token];
        values.push(Value::Time(now));
        tx.execute(again, values).await?;
        tx.execute("DELETE FROM gatewright_answer_records WHERE answer = ?1", params![id]).await?;
        return Ok(Begun::New(claim.clone()));
    }
    if row.request != *request {
        return Ok(Begun::Reused);
    }
    Ok(match (row.status, row.body) {
        (None, _) => Begun::InProgress,
        _ if row.rights != *rights => Begun::Reused,
        (Some(_), None) => Begun::Deleted,
        (Some(status), Some(body)) => Begun::Answered(KeptAnswer {
            status: u16::try_from(status).unwrap_or(500),
            headers: row.headers.and_then(|headers| serde_json::from_str(&headers).ok()).unwrap_or_default(),
            body: body.into_bytes(),
        }),
    })
}

/// Stores the answer of a claimed key, with the records that it contains. False if the key is claimed by another request
/// now: then nothing of this one may be committed.
pub(crate) async fn store(
    tx: &Tx,
    claim: &Claim,
    answer: &KeptAnswer,
    records: &[String],
) -> Result<bool, DatabaseError> {
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let headers = json!(answer.headers).to_string();
    let bytes = i64::try_from(body.len() + headers.len()).unwrap_or(i64::MAX);
    let values = vec![
        Value::from(&*claim.id),
        Value::from(&*claim.token),
        Value::Int(i64::from(answer.status)),
        Value::Text(headers),
        Value::Text(body),
        Value::Int(bytes),
    ];
    let update = "UPDATE gatewright_answers SET status = ?3, headers = ?4, body = ?5, bytes = ?6 \
        WHERE id = ?1 AND claim = ?2 AND status IS NULL";
    if tx.execute(update, values).await? != 1 {
        return Ok(false);
    }
    if !records.is_empty() {
        let mut values = vec![Value::from(&*claim.id)];
        values.extend(records.iter().map(|record| Value::from(&**record)));
        let rows: Vec<String> = (0..records.len()).map(|at| format!("(?1, ?{})", at + 2)).collect();
        let insert = format!(
            "INSERT INTO gatewright_answer_records (answer, record) VALUES {} ON CONFLICT DO NOTHING",
            rows.join(", ")
        );
        tx.execute(insert, values).await?;
    }
    if bytes > SMALL {
        trim(tx, &claim.caller).await?;
    }
    Ok(true)
}

/// Removes the contents of the answers that contain one of these records.
pub(crate) async fn blank(tx: &Tx, records: &[String]) -> Result<(), DatabaseError> {
    let among = dialect::is_among(tx.engine(), "record", "?1");
    let sql = format!(
        "UPDATE gatewright_answers SET headers = NULL, body = NULL, bytes = 0 WHERE status IS NOT NULL AND id IN \
         (SELECT answer FROM gatewright_answer_records WHERE {among})"
    );
    tx.execute(sql, vec![Value::Text(json!(records).to_string())]).await.map(|_| ())
}

/// The name of a record among those that answers contain.
pub(crate) fn record(table: &str, id: &str) -> String {
    format!("{table}/{id}")
}

/// Removes the oldest answers of a caller who has too many, or too large ones.
async fn trim(tx: &Tx, caller: &str) -> Result<(), DatabaseError> {
    let sum = "SELECT COUNT(*) AS n, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes FROM gatewright_answers \
        WHERE caller = ?1";
    let Some(row) = tx.query_opt(sum, params![caller]).await? else { return Ok(()) };
    let (mut keys, mut bytes): (i64, i64) = (row.get("n")?, row.get("bytes")?);
    if keys <= MAX_KEYS && bytes <= MAX_BYTES {
        return Ok(());
    }
    let oldest = "SELECT id, bytes FROM gatewright_answers WHERE caller = ?1 AND status IS NOT NULL \
        ORDER BY claimed_at, id LIMIT 1100";
    let mut ids: Vec<String> = Vec::new();
    for row in tx.query(oldest, params![caller]).await? {
        if keys <= MAX_KEYS && bytes <= MAX_BYTES {
            break;
        }
        keys -= 1;
        bytes -= row.get::<i64>("bytes")?;
        ids.push(row.get("id")?);
    }
    let among = dialect::is_among(tx.engine(), "id", "?1");
    let delete = format!("DELETE FROM gatewright_answers WHERE {among}");
    tx.execute(delete, vec![Value::Text(json!(ids).to_string())]).await.map(|_| ())
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}
