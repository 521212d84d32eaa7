use gatewright_db::{Db, Error, Lane, ReadablePage, Row, Share, Tx, Value};
use jiff::Timestamp;
use serde_json::Value as Json;

/// Reads the table `audit_log`, for operators.
#[derive(Debug, Clone)]
pub struct AuditLog {
    db: Db,
}

/// The events to read. Events must meet all given conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Events of this kind: `login.failed`, or an entity event's name.
    pub kind: Option<String>,
    /// Events about this account.
    pub user: Option<String>,
    /// Events about this subject, as `resource/id`.
    pub subject: Option<String>,
    /// Events at or after this moment.
    pub since: Option<Timestamp>,
    /// Events before this moment.
    pub until: Option<Timestamp>,
    /// Events after this one in the list: its moment and its id.
    pub after: Option<(Timestamp, String)>,
    /// The most events to return, 1 to 200.
    pub limit: u32,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its id.
    pub id: String,
    /// The kind of the event.
    pub kind: String,
    /// The account, if it is known.
    pub user: Option<String>,
    /// The client address, if it is known.
    pub remote: Option<String>,
    /// The subject, as `resource/id`.
    pub subject: Option<String>,
    /// Details, an object.
    pub meta: Json,
    /// When.
    pub at: Timestamp,
}

impl AuditQuery {
    /// The most events of one answer.
    pub const MOST: u32 = 200;
}

impl AuditLog {
    /// Reads the log of `db`. Reads have the same time limit as lists.
    pub fn new(db: Db) -> Self {
        Self { db: db.lane(Lane::Lists(Share(u64::MAX))) }
    }

    /// The events, the newest first.
    pub async fn list(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, Error> {
        let mut page = ReadablePage::new("audit_log", query.limit.clamp(1, AuditQuery::MOST));
        loop {
            let (sql, params) = statement(query, page.asked());
            let rows =
                self.db.read(async move |tx: &Tx| -> Result<_, Error> { tx.query(sql.clone(), params.clone()).await });
            page.add_all(&rows.await?, record)?;
            match page.finish()? {
                Ok(found) => return Ok(found),
                Err(longer) => page = longer,
            }
        }
    }
}

fn statement(query: &AuditQuery, limit: i64) -> (String, Vec<Value>) {
    let mut params: Vec<Value> = Vec::new();
    let mut conditions = Vec::new();
    let mut holds = |condition: &str, value: Value| {
        params.push(value);
        conditions.push(format!("{condition} ?{}", params.len()));
    };
    if let Some(kind) = &query.kind {
        holds("kind =", kind.as_str().into());
    }
    if let Some(user) = &query.user {
        holds("user_id =", user.as_str().into());
    }
    if let Some(subject) = &query.subject {
        holds("subject =", subject.as_str().into());
    }
    if let Some(since) = query.since {
        holds("created_at >=", Value::Time(since));
    }
    if let Some(until) = query.until {
        holds("created_at <", Value::Time(until));
    }
    if let Some((at, id)) = &query.after {
        params.extend([Value::Time(*at), id.as_str().into()]);
        conditions.push(format!("(created_at, id) < (?{}, ?{})", params.len() - 1, params.len()));
    }
    let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    params.push(Value::Int(limit));
    // Bytes: `meta` names what happened and has no contents; a page has few entries.
    let sql = format!(
        "SELECT id, kind, user_id, remote, subject, meta, created_at FROM audit_log{filter} \
         ORDER BY created_at DESC, id DESC LIMIT ?{}",
        params.len()
    );
    (sql, params)
}

fn record(row: &Row) -> Result<AuditRecord, Error> {
    let meta: String = row.get("meta")?;
    Ok(AuditRecord {
        id: row.get("id")?,
        kind: row.get("kind")?,
        user: row.get("user_id")?,
        remote: row.get("remote")?,
        subject: row.get("subject")?,
        // Rows of other programs are shown unchanged.
        meta: serde_json::from_str(&meta).unwrap_or(Json::String(meta)),
        at: row.get("created_at")?,
    })
}
