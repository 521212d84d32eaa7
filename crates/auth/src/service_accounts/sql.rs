use async_trait::async_trait;
use gatewright_base::ServiceId;
use gatewright_db::{Db, Error, Lane, Row, dialect, params, readable};
use jiff::Timestamp;

use super::{ServiceAccount, ServiceAccountStore, ServiceAccountStoreError};
use crate::users::{roles_from_text, roles_text};

/// Service accounts in the table `service_accounts` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlServiceAccountStore {
    db: Db,
}

impl SqlServiceAccountStore {
    /// A store over `db`. [`Auth`](crate::Auth) creates its tables together with those of API tokens.
    pub fn new(db: Db) -> Self {
        Self { db: db.lane(Lane::Identity) }
    }
}

#[async_trait]
impl ServiceAccountStore for SqlServiceAccountStore {
    async fn create(&self, account: &ServiceAccount) -> Result<bool, ServiceAccountStoreError> {
        let sql = "INSERT INTO service_accounts (id, name, roles, disabled, created_at, updated_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
        let params =
            params![&account.id, &account.name, roles_text(&account.roles), account.disabled, account.created_at];
        match self.db.execute(sql, params).await {
            Ok(_) => Ok(true),
            Err(Error::Unique { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn find(&self, id: &ServiceId) -> Result<Option<ServiceAccount>, ServiceAccountStoreError> {
        let sql = "SELECT id, name, roles, disabled, created_at FROM service_accounts WHERE id = ?1";
        Ok(self.db.query_opt(sql, params![id]).await?.as_ref().map(read).transpose()?)
    }

    async fn find_among(&self, ids: &[ServiceId]) -> Result<Vec<ServiceAccount>, ServiceAccountStoreError> {
        let among = dialect::is_among(self.db.engine(), "id", "?1");
        let sql = format!("SELECT id, name, roles, disabled, created_at FROM service_accounts WHERE {among}");
        let ids: Vec<&str> = ids.iter().map(ServiceId::as_str).collect();
        let rows = self.db.query(sql, params![serde_json::Value::from(ids).to_string()]).await?;
        Ok(readable("service_accounts", &rows, read)?)
    }

    async fn find_by_name(&self, name: &str) -> Result<Option<ServiceAccount>, ServiceAccountStoreError> {
        let sql = "SELECT id, name, roles, disabled, created_at FROM service_accounts WHERE name = ?1";
        Ok(self.db.query_opt(sql, params![name]).await?.as_ref().map(read).transpose()?)
    }

    async fn list(&self) -> Result<Vec<ServiceAccount>, ServiceAccountStoreError> {
        let sql = "SELECT id, name, roles, disabled, created_at FROM service_accounts ORDER BY name";
        let rows = self.db.query(sql, params![]).await?;
        Ok(readable("service_accounts", &rows, read)?)
    }

    async fn set_disabled(
        &self,
        id: &ServiceId,
        disabled: bool,
        at: Timestamp,
    ) -> Result<bool, ServiceAccountStoreError> {
        let sql = "UPDATE service_accounts SET disabled = ?2, updated_at = ?3 WHERE id = ?1";
        Ok(self.db.execute(sql, params![id, disabled, at]).await? > 0)
    }
}

fn read(row: &Row) -> Result<ServiceAccount, Error> {
    let roles = roles_from_text(&row.get::<String>("roles")?).ok_or_else(|| Error::Corrupt {
        statement: "a read of service_accounts".to_owned(),
        column: "roles".to_owned(),
        found: "text",
        expected: "a JSON list of names",
    })?;
    Ok(ServiceAccount {
        id: row.get("id")?,
        name: row.get("name")?,
        roles,
        disabled: row.get("disabled")?,
        created_at: row.get("created_at")?,
    })
}
