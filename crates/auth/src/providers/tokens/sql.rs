use async_trait::async_trait;
use gatewright_base::UserId;
use gatewright_db::{Db, params};

use super::{OAuthTokenRecord, OAuthTokenStore, OAuthTokenStoreError, Sealed};

/// Provider tokens in the table `oauth_tokens` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlOAuthTokenStore {
    db: Db,
}

/// The statements that create the table, for a migration step. There is no foreign key: users may be in a host's own
/// store.
pub const OAUTH_TOKENS_SCHEMA: &str = "CREATE TABLE oauth_tokens (
    user_id {text} NOT NULL,
    provider {text} NOT NULL,
    provider_id {text} NOT NULL,
    access_token {bytes} NOT NULL,
    refresh_token {bytes},
    expires_at {time},
    scope {text},
    created_at {time} NOT NULL,
    updated_at {time} NOT NULL,
    PRIMARY KEY (user_id, provider)
  )";

impl SqlOAuthTokenStore {
    /// A store over `db`, whose table must exist.
    pub fn new(db: Db) -> Self {
        Self { db }
    }
}

#[async_trait]
impl OAuthTokenStore for SqlOAuthTokenStore {
    async fn put(&self, record: &OAuthTokenRecord) -> Result<(), OAuthTokenStoreError> {
        let sql = "INSERT INTO oauth_tokens \
                   (user_id, provider, provider_id, access_token, refresh_token, expires_at, scope, created_at, updated_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8) \
                   ON CONFLICT (user_id, provider) DO UPDATE SET \
                   refresh_token = CASE WHEN excluded.refresh_token IS NULL \
                     AND oauth_tokens.provider_id = excluded.provider_id \
                     THEN oauth_tokens.refresh_token ELSE excluded.refresh_token END, \
                   provider_id = excluded.provider_id, access_token = excluded.access_token, \
                   expires_at = excluded.expires_at, scope = excluded.scope, updated_at = excluded.updated_at";
        let values = params![
            &record.user_id,
            record.provider.as_str(),
            record.provider_id.as_str(),
            record.access_token.as_bytes().to_vec(),
            record.refresh_token.as_ref().map(|token| token.as_bytes().to_vec()),
            record.expires_at,
            record.scope.clone(),
            record.updated_at
        ];
        self.db.execute(sql, values).await?;
        Ok(())
    }

    async fn find(&self, user: &UserId, provider: &str) -> Result<Option<OAuthTokenRecord>, OAuthTokenStoreError> {
        let sql = "SELECT provider_id, access_token, refresh_token, expires_at, scope, updated_at \
                   FROM oauth_tokens WHERE user_id = ?1 AND provider = ?2";
        let Some(row) = self.db.query_opt(sql, params![user, provider]).await? else { return Ok(None) };
        Ok(Some(OAuthTokenRecord {
            user_id: user.clone(),
            provider: provider.to_owned(),
            provider_id: row.get("provider_id")?,
            access_token: Sealed::from_bytes(row.get("access_token")?),
            refresh_token: row.get::<Option<Vec<u8>>>("refresh_token")?.map(Sealed::from_bytes),
            expires_at: row.get("expires_at")?,
            scope: row.get("scope")?,
            updated_at: row.get("updated_at")?,
        }))
    }

    async fn replace(&self, old: &OAuthTokenRecord, new: &OAuthTokenRecord) -> Result<bool, OAuthTokenStoreError> {
        let sql = "UPDATE oauth_tokens SET provider_id = ?4, access_token = ?5, refresh_token = ?6, expires_at = ?7, \
                   scope = ?8, updated_at = ?9 WHERE user_id = ?1 AND provider = ?2 AND access_token = ?3";
        let values = params![
            &old.user_id,
            old.provider.as_str(),
            old.access_token.as_bytes().to_vec(),
            new.provider_id.as_str(),
            new.access_token.as_bytes().to_vec(),
            new.refresh_token.as_ref().map(|token| token.as_bytes().to_vec()),
            new.expires_at,
            new.scope.clone(),
            new.updated_at
        ];
        Ok(self.db.execute(sql, values).await? > 0)
    }

    async fn remove(&self, user: &UserId, provider: Option<&str>) -> Result<u64, OAuthTokenStoreError> {
        Ok(match provider {
            Some(provider) => {
                let sql = "DELETE FROM oauth_tokens WHERE user_id = ?1 AND provider = ?2";
                self.db.execute(sql, params![user, provider]).await?
            }
            None => self.db.execute("DELETE FROM oauth_tokens WHERE user_id = ?1", params![user]).await?,
        })
    }
}
