use async_trait::async_trait;
use gatewright_base::{Ambient, UserId};
use gatewright_db::{Db, Sql, Step, dialect, params};
use jiff::Timestamp;
use serde_json::json;

use super::{AuditAt, AuditEvent, AuditKind, AuditLog, AuditPage, AuditQuery, AuditRecord, AuditSink};
use crate::email::EmailAddress;
use crate::users::BoxError;

/// Stores events in the table `audit_log` of a SQLite or Postgres database. [Repetitions](AuditEvent::repetition) are
/// one row, whose `meta` has their number as `count`.
#[derive(Debug, Clone)]
pub struct SqlAuditSink {
    db: Db,
    ambient: Ambient,
    insert: Sql,
    sweep: Sql,
    forget_user: Sql,
    forget_address: Sql,
    log: AuditLog,
}

/// The key of `meta` that marks the event of an act whose outcome is not known yet.
const PENDING: &str = "pending";
/// Events that one statement looks at or changes when an account is forgotten.
const BATCH: usize = 1_000;
/// Keys of `meta` with personal data, in addition to the client's address: the address, the values of records, names of
/// tokens and passkeys, identities at providers, and browsers.
const PERSONAL: [&str; 5] = ["email", "fields", "name", "provider_id", "user_agent"];

/// The steps that create the table.
pub(crate) const MIGRATIONS: &[Step] = &[TABLE, SEARCH, ADDRESSES];

/// The filters of the log, in addition to time and account.
const SEARCH: Step = Step {
    version: 2,
    name: "audit log search",
    sql: "ALTER TABLE audit_log ADD COLUMN subject {text};
          CREATE INDEX audit_log_subject ON audit_log (subject, created_at);
          CREATE INDEX audit_log_kind ON audit_log (kind, created_at)",
};

/// The index for removing the data of a deleted account. A step that only creates an index runs again for tables that exist
/// without a record of their steps.
const ADDRESSES: Step = Step {
    version: 3,
    name: "audit log addresses",
    sql: "CREATE INDEX IF NOT EXISTS audit_log_email ON audit_log ((meta ->> 'email'))",
};
/// The expression of that index, in the spelling of both engines.
const EMAIL: &str = "(meta ->> 'email')";

const TABLE: Step = Step {
    version: 1,
    name: "audit log",
    sql: "CREATE TABLE audit_log (
            id {text} PRIMARY KEY,
            kind {text} NOT NULL,
            user_id {text},
            remote {text},
            meta {json} NOT NULL,
            created_at {time} NOT NULL
          );
          CREATE INDEX audit_log_created_at ON audit_log (created_at);
          CREATE INDEX audit_log_user_id ON audit_log (user_id, created_at)",
};

impl SqlAuditSink {
    /// A sink over `db`. [`Auth`](crate::Auth) creates its tables.
    pub fn new(db: Db, ambient: Ambient) -> Self {
        let count_up = dialect::json_count_up(db.engine(), "audit_log.meta", "count");
        let insert = format!(
            "INSERT INTO audit_log (id, kind, user_id, remote, meta, created_at, subject) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET meta = {count_up}"
        );
        let sweep = dialect::delete_oldest(db.engine(), "audit_log", "id", "created_at");
        let engine = db.engine();
        let anonymous = PERSONAL.iter().fold("meta".to_owned(), |meta, key| dialect::json_without(engine, &meta, key));
        let forget = format!("UPDATE audit_log SET remote = NULL, meta = {anonymous} WHERE");
        let is_personal =
            PERSONAL.map(|key| format!("{} IS NOT NULL", dialect::json_text(engine, "meta", key))).join(" OR ");
        Self {
            forget_user: format!(
                "{forget} id IN (SELECT id FROM audit_log WHERE user_id = ?1 AND (remote IS NOT NULL OR {is_personal}) LIMIT {BATCH})"
            )
            .into(),
            // Requests for links are recorded for an address, whether or not it has an account. The events of another
            // account stay, with the address that caused them.
            forget_address: format!(
                "UPDATE audit_log SET remote = CASE WHEN user_id IS NULL THEN NULL ELSE remote END, meta = {} \
                 WHERE id IN (SELECT id FROM audit_log WHERE {EMAIL} = ?1 LIMIT {BATCH})",
                dialect::json_without(engine, "meta", "email")
            )
            .into(),
            log: AuditLog::new(db.clone()),
            insert: insert.into(),
            sweep: sweep.into(),
            db,
            ambient,
        }
    }

    async fn insert(&self, id: &str, event: &AuditEvent, meta: String) -> Result<(), BoxError> {
        let params = params![
            id,
            event.kind.name(),
            event.user_id.as_ref(),
            event.remote.map(|address| address.to_string()),
            meta,
            event.at,
            event.subject.as_deref()
        ];
        self.db.execute(&self.insert, params).await?;
        Ok(())
    }
}

#[async_trait]
impl AuditSink for SqlAuditSink {
    async fn record(&self, event: AuditEvent) -> Result<(), BoxError> {
        let meta = serde_json::to_string(&event.meta)?;
        let id = event.repetition().unwrap_or_else(|| self.ambient.uuid()).to_string();
        self.insert(&id, &event, meta).await
    }

    async fn begin(&self, event: &AuditEvent) -> Result<Option<String>, BoxError> {
        let id = self.ambient.uuid().to_string();
        let mut meta = event.meta.clone();
        meta.insert(PENDING.to_owned(), true.into());
        self.insert(&id, event, serde_json::to_string(&meta)?).await?;
        Ok(Some(id))
    }

    async fn settle(&self, id: &str, event: Option<AuditEvent>) -> Result<(), BoxError> {
        match event {
            Some(event) => {
                let meta = serde_json::to_string(&event.meta)?;
                let sql = "UPDATE audit_log SET meta = ?2, user_id = ?3 WHERE id = ?1";
                self.db.execute(sql, params![id, meta, event.user_id.as_ref()]).await?;
            }
            None => {
                self.db.execute("DELETE FROM audit_log WHERE id = ?1", params![id]).await?;
            }
        }
        Ok(())
    }

    async fn forget(&self, user: &UserId, email: &EmailAddress) -> Result<(), BoxError> {
        let full = u64::try_from(BATCH).unwrap_or(u64::MAX);
        // In short steps, which do not block other writes.
        while self.db.execute(&self.forget_user, params![user]).await? >= full {
            tokio::task::yield_now().await;
        }
        while self.db.execute(&self.forget_address, params![email.as_str()]).await? >= full {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn about(&self, user: &UserId, after: Option<AuditAt>) -> Result<AuditPage, BoxError> {
        let (user, limit) = (Some(user.as_str().to_owned()), AuditQuery::MOST);
        let found = self.log.list(&AuditQuery { user, after, limit, ..AuditQuery::default() }).await?;
        let is_full = u32::try_from(found.len()).is_ok_and(|count| count == limit);
        let next = found.last().filter(|_| is_full).map(|last| (last.at, last.id.clone()));
        Ok(AuditPage { events: found.iter().map(for_owner).collect(), next })
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64, BoxError> {
        Ok(self.db.execute(&self.sweep, params![before, limit]).await?)
    }
}

/// An event for the owner of its account. An act of an operator does not identify the operator.
fn for_owner(record: &AuditRecord) -> serde_json::Value {
    let at = gatewright_base::time::format(record.at);
    if record.kind == AuditKind::AdminActed.name() {
        return json!({ "kind": record.kind, "at": at });
    }
    json!({ "kind": record.kind, "at": at, "address": record.remote, "subject": record.subject, "meta": record.meta })
}
