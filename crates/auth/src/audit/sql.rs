use async_trait::async_trait;
use gatewright_base::{Ambient, UserId};
use gatewright_db::{Db, Sql, Step, dialect, params};
use jiff::Timestamp;

use super::{AuditEvent, AuditSink};
use crate::EmailAddress;
use crate::users::BoxError;

/// Keeps events in the table `audit_log` of a SQLite or Postgres database. [Repetitions](AuditEvent::repetition) are one
/// row, whose `meta` has their number as `count`.
#[derive(Debug, Clone)]
pub struct SqlAuditSink {
    db: Db,
    ambient: Ambient,
    insert: Sql,
    sweep: Sql,
    forget_user: Sql,
    forget_email: Sql,
}

/// The steps that make the table.
pub(crate) const MIGRATIONS: &[Step] = &[TABLE, SEARCH];

/// What the log is searched by, apart from time and account.
const SEARCH: Step = Step {
    version: 2,
    name: "audit log search",
    sql: "ALTER TABLE audit_log ADD COLUMN subject {text};
          CREATE INDEX audit_log_subject ON audit_log (subject, created_at);
          CREATE INDEX audit_log_kind ON audit_log (kind, created_at)",
};

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
    /// A sink over `db`, whose tables [`Auth`](crate::Auth) makes ready.
    pub fn new(db: Db, ambient: Ambient) -> Self {
        let count_up = dialect::json_count_up(db.engine(), "audit_log.meta", "count");
        let insert = format!(
            "INSERT INTO audit_log (id, kind, user_id, remote, meta, created_at, subject) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET meta = {count_up}"
        );
        let sweep = dialect::delete_oldest(db.engine(), "audit_log", "id", "created_at");
        let anonymous = dialect::json_without(db.engine(), "meta", "email");
        let forget = format!("UPDATE audit_log SET remote = NULL, meta = {anonymous} WHERE");
        let email = dialect::json_text(db.engine(), "meta", "email");
        Self {
            forget_user: format!("{forget} user_id = ?1").into(),
            // Requests for links are made for an address, whether it has an account or not.
            forget_email: format!("{forget} {email} = ?1").into(),
            insert: insert.into(),
            sweep: sweep.into(),
            db,
            ambient,
        }
    }
}

#[async_trait]
impl AuditSink for SqlAuditSink {
    async fn record(&self, event: AuditEvent) -> Result<(), BoxError> {
        let meta = serde_json::to_string(&event.meta)?;
        let params = params![
            event.repetition().unwrap_or_else(|| self.ambient.uuid()).to_string(),
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

    async fn forget(&self, user: &UserId, email: &EmailAddress) -> Result<(), BoxError> {
        self.db.execute(&self.forget_user, params![user]).await?;
        self.db.execute(&self.forget_email, params![email.as_str()]).await?;
        Ok(())
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64, BoxError> {
        Ok(self.db.execute(&self.sweep, params![before, limit]).await?)
    }
}
