use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{SessionId, UserId};
use gatewright_db::{Db, Error, Lane, Step, Tx, params};
use jiff::Timestamp;

use super::{Begun, CodeHash, Factor, TotpSecret, TwoFactorStore, TwoFactorStoreError, TwoFactorsWithin};

/// Second factors in the tables `two_factor` and `two_factor_backup_codes` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlTwoFactorStore {
    db: Db,
}

/// The steps that create the tables. There is no foreign key: users may be in a program's own store.
pub(super) const MIGRATIONS: &[Step] = &[
    Step {
        version: 1,
        name: "two factor",
        sql: "CREATE TABLE two_factor (
                user_id {text} PRIMARY KEY,
                secret {text} NOT NULL,
                enabled {bool} NOT NULL,
                last_step {int} NOT NULL,
                begun_at {time} NOT NULL
              );
              CREATE TABLE two_factor_backup_codes (
                user_id {text} NOT NULL,
                code_hash {bytes} NOT NULL,
                PRIMARY KEY (user_id, code_hash)
              )",
    },
    Step { version: 2, name: "two factor sessions", sql: "ALTER TABLE two_factor ADD COLUMN begun_by {text}" },
    Step {
        version: 3,
        name: "age of backup codes",
        sql: "ALTER TABLE two_factor_backup_codes ADD COLUMN replaced_at {time}",
    },
];

impl SqlTwoFactorStore {
    /// A store over `db`. [`Auth`](crate::Auth) creates its tables.
    pub fn new(db: Db) -> Self {
        Self { db: db.lane(Lane::Identity) }
    }
}

#[async_trait]
impl TwoFactorStore for SqlTwoFactorStore {
    async fn find(&self, user: &UserId) -> Result<Option<Factor>, TwoFactorStoreError> {
        let sql = "SELECT secret, enabled, begun_by, begun_at FROM two_factor WHERE user_id = ?1";
        let Some(row) = self.db.query_opt(sql, params![user]).await? else { return Ok(None) };
        let secret = TotpSecret::from_base32(row.get::<String>("secret")?);
        let begun = match row.get::<Option<SessionId>>("begun_by")? {
            Some(session) => Some(Begun { session, at: row.get("begun_at")? }),
            None => None,
        };
        Ok(Some(Factor { secret, enabled: row.get("enabled")?, begun }))
    }

    async fn begin(&self, user: &UserId, secret: &TotpSecret, begun: &Begun) -> Result<bool, TwoFactorStoreError> {
        let sql = "INSERT INTO two_factor (user_id, secret, enabled, last_step, begun_at, begun_by) \
                   VALUES (?1, ?2, ?3, 0, ?4, ?5) \
                   ON CONFLICT (user_id) DO UPDATE SET secret = excluded.secret, begun_at = excluded.begun_at, \
                   begun_by = excluded.begun_by WHERE two_factor.enabled = ?3";
        Ok(self.db.execute(sql, params![user, secret.expose(), false, begun.at, &begun.session]).await? > 0)
    }

    async fn enable(
        &self,
        user: &UserId,
        secret: &TotpSecret,
        step: i64,
        codes: &[CodeHash],
    ) -> Result<bool, TwoFactorStoreError> {
        let (within, user, secret, codes) = (self.clone(), user.clone(), secret.clone(), codes.to_vec());
        let enable = async move |tx: &Tx| TwoFactorsWithin::enable(&within, tx, &user, &secret, step, &codes).await;
        Ok(self.db.write(enable).await?)
    }

    async fn spend_step(&self, user: &UserId, secret: &TotpSecret, step: i64) -> Result<bool, TwoFactorStoreError> {
        let sql = "UPDATE two_factor SET last_step = ?3 \
                   WHERE user_id = ?1 AND secret = ?2 AND last_step < ?3 AND enabled = ?4";
        Ok(self.db.execute(sql, params![user, secret.expose(), step, true]).await? > 0)
    }

    async fn spend_backup_code(&self, user: &UserId, code: &CodeHash) -> Result<bool, TwoFactorStoreError> {
        let sql = "DELETE FROM two_factor_backup_codes WHERE user_id = ?1 AND code_hash = ?2 \
                   AND EXISTS (SELECT 1 FROM two_factor WHERE two_factor.user_id = ?1 AND two_factor.enabled = ?3)";
        Ok(self.db.execute(sql, params![user, code.as_bytes().to_vec(), true]).await? > 0)
    }

    async fn replace_backup_codes(
        &self,
        user: &UserId,
        codes: &[CodeHash],
        at: Timestamp,
    ) -> Result<bool, TwoFactorStoreError> {
        let (user, codes) = (user.clone(), codes.to_vec());
        let replace = async move |tx: &Tx| -> Result<bool, Error> {
            // A write that changes nothing locks the row, so that concurrent new sets replace each other and are not
            // mixed.
            let sql = "UPDATE two_factor SET last_step = last_step WHERE user_id = ?1 AND enabled = ?2";
            let enabled = tx.execute(sql, params![&user, true]).await? > 0;
            if enabled {
                put_codes(tx, &user, &codes, Some(at)).await?;
            }
            Ok(enabled)
        };
        Ok(self.db.write(replace).await?)
    }

    async fn backup_codes_replaced_at(&self, user: &UserId) -> Result<Option<Timestamp>, TwoFactorStoreError> {
        let sql = "SELECT MAX(replaced_at) AS replaced_at FROM two_factor_backup_codes WHERE user_id = ?1";
        let row = self.db.query_opt(sql, params![user]).await?;
        Ok(row.map_or(Ok(None), |row| row.get("replaced_at"))?)
    }

    fn within(self: Arc<Self>) -> Option<Arc<dyn TwoFactorsWithin>> {
        Some(self)
    }

    async fn remove(&self, user: &UserId) -> Result<bool, TwoFactorStoreError> {
        let user = user.clone();
        let remove = async move |tx: &Tx| -> Result<bool, Error> {
            let removed = tx.execute("DELETE FROM two_factor WHERE user_id = ?1", params![&user]).await? > 0;
            tx.execute("DELETE FROM two_factor_backup_codes WHERE user_id = ?1", params![&user]).await?;
            Ok(removed)
        };
        Ok(self.db.write(remove).await?)
    }
}

#[async_trait]
impl TwoFactorsWithin for SqlTwoFactorStore {
    fn database(&self) -> &Db {
        &self.db
    }

    async fn enable(
        &self,
        tx: &Tx,
        user: &UserId,
        secret: &TotpSecret,
        step: i64,
        codes: &[CodeHash],
    ) -> Result<bool, Error> {
        let sql = "UPDATE two_factor SET enabled = ?4, last_step = ?3 \
                   WHERE user_id = ?1 AND secret = ?2 AND enabled = ?5";
        let enabled = tx.execute(sql, params![user, secret.expose(), step, true, false]).await? > 0;
        if enabled {
            put_codes(tx, user, codes, None).await?;
        }
        Ok(enabled)
    }
}

async fn put_codes(tx: &Tx, user: &UserId, codes: &[CodeHash], at: Option<Timestamp>) -> Result<(), Error> {
    tx.execute("DELETE FROM two_factor_backup_codes WHERE user_id = ?1", params![user]).await?;
    for code in codes {
        let sql = "INSERT INTO two_factor_backup_codes (user_id, code_hash, replaced_at) VALUES (?1, ?2, ?3)";
        tx.execute(sql, params![user, code.as_bytes().to_vec(), at]).await?;
    }
    Ok(())
}
