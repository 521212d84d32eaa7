use async_trait::async_trait;
use gatewright_base::Ambient;
use gatewright_db::{Db, Step, params};

use super::{AuditEvent, AuditSink};
use crate::users::BoxError;

/// Keeps events in the table `audit_log` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlAuditSink {
    db: Db,
    ambient: Ambient,
}

/// The steps that make the table.
pub(crate) const MIGRATIONS: &[Step] = &[Step {
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
}];

impl SqlAuditSink {
    /// A sink over `db`, whose tables [`Auth`](crate::Auth) makes ready.
    pub fn new(db: Db, ambient: Ambient) -> Self {
        Self { db, ambient }
    }
}

#[async_trait]
impl AuditSink for SqlAuditSink {
    async fn record(&self, event: AuditEvent) -> Result<(), BoxError> {
        let meta = serde_json::to_string(&event.meta)?;
        let sql = "INSERT INTO audit_log (id, kind, user_id, remote, meta, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let params = params![
            self.ambient.uuid().to_string(),
            event.kind.name(),
            event.user_id.as_ref(),
            event.remote.map(|address| address.to_string()),
            meta,
            event.at
        ];
        self.db.execute(sql, params).await?;
        Ok(())
    }
}
