use async_trait::async_trait;
use gatewright_base::UserId;
use gatewright_db::{Db, Error, Sql, Step, Tx, dialect, params};
use jiff::Timestamp;

use super::{Demand, IssuedToken, Purpose, SingleUseStore, SingleUseStoreError, TokenKey};
use crate::email::EmailAddress;

/// Single-use tokens in the table `single_use_tokens` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlSingleUseStore {
    db: Db,
    sweep: Sql,
}

/// The steps that create the table. There is no foreign key: users may be in a program's own store.
pub(crate) const MIGRATIONS: &[Step] = &[
    TABLE,
    Step { version: 2, name: "demands of tokens", sql: "ALTER TABLE single_use_tokens ADD COLUMN demand {text}" },
];

const TABLE: Step = Step {
    version: 1,
    name: "single-use tokens",
    sql: "CREATE TABLE single_use_tokens (
            token_hash {bytes} PRIMARY KEY,
            purpose {text} NOT NULL,
            email {text} NOT NULL,
            user_id {text},
            next {text},
            issued_at {time} NOT NULL,
            expires_at {time} NOT NULL,
            spent {bool} NOT NULL
          );
          CREATE INDEX single_use_tokens_email ON single_use_tokens (email);
          CREATE INDEX single_use_tokens_user_id ON single_use_tokens (user_id);
          CREATE INDEX single_use_tokens_expires_at ON single_use_tokens (expires_at)",
};

/// Expired tokens that each new one removes. More than one, so that the table shrinks to the live ones.
const RECLAIMED_AT_ONCE: i64 = 32;

impl SqlSingleUseStore {
    /// A store over `db`. [`Auth`](crate::Auth) creates its tables.
    pub fn new(db: Db) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "single_use_tokens", "token_hash", "expires_at").into();
        Self { db, sweep }
    }
}

#[async_trait]
impl SingleUseStore for SqlSingleUseStore {
    async fn put(&self, token: &IssuedToken, now: Timestamp) -> Result<(), SingleUseStoreError> {
        let values = params![
            token.key.as_bytes().to_vec(),
            token.purpose.name(),
            token.email.as_str(),
            token.user_id.as_ref(),
            token.next.clone(),
            token.issued_at,
            token.expires_at,
            token.spent,
            token.demand.name()
        ];
        let sweep = self.sweep.clone();
        let put = async move |tx: &Tx| -> Result<(), Error> {
            tx.execute(&sweep, params![now, RECLAIMED_AT_ONCE]).await?;
            let sql = "INSERT INTO single_use_tokens \
                       (token_hash, purpose, email, user_id, next, issued_at, expires_at, spent, demand) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
            tx.execute(sql, values.clone()).await.map(|_| ())
        };
        Ok(self.db.write(put).await?)
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, SingleUseStoreError> {
        Ok(self.db.execute(&self.sweep, params![now, limit]).await?)
    }

    async fn find(&self, key: &TokenKey, purpose: Purpose) -> Result<Option<IssuedToken>, SingleUseStoreError> {
        let sql = "SELECT email, user_id, next, issued_at, expires_at, spent, demand FROM single_use_tokens \
                   WHERE token_hash = ?1 AND purpose = ?2";
        let row = self.db.query_opt(sql, params![key.as_bytes().to_vec(), purpose.name()]).await?;
        let Some(row) = row else { return Ok(None) };
        let email = EmailAddress::parse(&row.get::<String>("email")?).map_err(SingleUseStoreError::new)?;
        Ok(Some(IssuedToken {
            key: *key,
            purpose,
            email,
            user_id: row.get("user_id")?,
            next: row.get("next")?,
            demand: Demand::of_stored(row.get::<Option<String>>("demand")?.as_deref(), purpose),
            issued_at: row.get("issued_at")?,
            expires_at: row.get("expires_at")?,
            spent: row.get("spent")?,
        }))
    }

    async fn spend(&self, key: &TokenKey, purpose: Purpose, now: Timestamp) -> Result<bool, SingleUseStoreError> {
        let sql = "UPDATE single_use_tokens SET spent = ?4 \
                   WHERE token_hash = ?1 AND purpose = ?2 AND expires_at > ?3 AND spent <> ?4";
        Ok(self.db.execute(sql, params![key.as_bytes().to_vec(), purpose.name(), now, true]).await? > 0)
    }

    async fn remove(
        &self,
        user: &UserId,
        email: &EmailAddress,
        purpose: Option<Purpose>,
    ) -> Result<u64, SingleUseStoreError> {
        let removed = match purpose {
            Some(purpose) => {
                let sql = "DELETE FROM single_use_tokens WHERE (user_id = ?1 OR email = ?2) AND purpose = ?3";
                self.db.execute(sql, params![user, email.as_str(), purpose.name()]).await
            }
            None => {
                let sql = "DELETE FROM single_use_tokens WHERE user_id = ?1 OR email = ?2";
                self.db.execute(sql, params![user, email.as_str()]).await
            }
        };
        Ok(removed?)
    }
}
