use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Id, Scopes, Subject, TokenId};
use gatewright_db::{Db, Error, Lane, Row, Share, Sql, Step, Tx, dialect, params, readable};
use jiff::Timestamp;

use super::{
    DelegatedTokens, Delegation, REMEMBERED, StoredToken, TokenError, TokenHash, TokenStore, TokenStoreError,
    TokensWithin,
};

/// API tokens in the table `api_tokens` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlTokenStore {
    db: Db,
    sweep: Sql,
}

/// The steps that create the tables of tokens and of service accounts. There is no foreign key: users may be in a
/// program's own store.
pub(crate) const MIGRATIONS: &[Step] = &[
    Step {
        version: 1,
        name: "API tokens and service accounts",
        sql: "CREATE TABLE api_tokens (
            id {text} PRIMARY KEY,
            token_hash {bytes} NOT NULL UNIQUE,
            prefix {text} NOT NULL,
            name {text} NOT NULL,
            owner_kind {text} NOT NULL,
            owner_id {text} NOT NULL,
            scopes {text} NOT NULL,
            created_at {time} NOT NULL,
            expires_at {time},
            last_used_at {time},
            revoked_at {time}
          );
          CREATE INDEX api_tokens_owner ON api_tokens (owner_kind, owner_id);
          CREATE INDEX api_tokens_revoked_at ON api_tokens (revoked_at);
          CREATE TABLE service_accounts (
            id {text} PRIMARY KEY,
            name {text} NOT NULL UNIQUE,
            roles {text} NOT NULL,
            disabled {bool} NOT NULL,
            created_at {time} NOT NULL,
            updated_at {time} NOT NULL
          )",
    },
    Step {
        version: 2,
        name: "tokens of the authorization server",
        sql: "ALTER TABLE api_tokens ADD COLUMN client_id {text};
          ALTER TABLE api_tokens ADD COLUMN grant_id {text};
          ALTER TABLE api_tokens ADD COLUMN audience {text};
          CREATE INDEX api_tokens_grant ON api_tokens (grant_id, created_at);
          CREATE INDEX api_tokens_client ON api_tokens (client_id)",
    },
    Step { version: 3, name: "tenants of tokens", sql: "ALTER TABLE api_tokens ADD COLUMN tenant_id {text}" },
];

/// Old revoked tokens that each new token removes. More than one, so that the table shrinks to the rows that are kept.
const RECLAIMED_AT_ONCE: i64 = 32;

/// Removes all revoked tokens of an owner except the `?3` latest ones, so that repeated issuing and revoking does not
/// fill the table. Those of the authorization server are excluded: it removes them itself.
const BEYOND_THE_MOST: &str = "DELETE FROM api_tokens WHERE id IN (SELECT id FROM api_tokens \
     WHERE owner_kind = ?1 AND owner_id = ?2 AND grant_id IS NULL AND revoked_at IS NOT NULL ORDER BY revoked_at DESC, id DESC \
     LIMIT 1000 OFFSET ?3)";

/// The columns that [`read`] reads.
macro_rules! columns {
    () => {
        "id, prefix, name, owner_kind, owner_id, scopes, created_at, expires_at, last_used_at, revoked_at, client_id, grant_id, \
         audience, tenant_id"
    };
}

impl SqlTokenStore {
    /// A store over `db`. [`Auth`](crate::Auth) creates its tables.
    pub fn new(db: Db) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "api_tokens", "id", "revoked_at").into();
        Self { db: db.lane(Lane::Identity), sweep }
    }
}

#[async_trait]
impl TokenStore for SqlTokenStore {
    async fn create(&self, token: &StoredToken, hash: &TokenHash, most: Option<u32>) -> Result<bool, TokenStoreError> {
        let (within, token, hash) = (self.clone(), token.clone(), *hash);
        let share = Share::of(&token.owner);
        let create = async move |tx: &Tx| TokensWithin::create(&within, tx, &token, &hash, most).await;
        Ok(self.db.writing_for(share).write(create).await?)
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64, TokenStoreError> {
        Ok(self.db.execute(&self.sweep, params![before, limit]).await?)
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<StoredToken>, TokenStoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM api_tokens WHERE token_hash = ?1");
        let row = self.db.query_opt(sql, params![hash.as_bytes()]).await?;
        Ok(row.as_ref().map(read).transpose()?)
    }

    async fn list(&self, owner: Option<&Subject>) -> Result<Vec<StoredToken>, TokenStoreError> {
        macro_rules! list {
            ($owner:literal) => {
                concat!(
                    "SELECT ",
                    columns!(),
                    " FROM api_tokens WHERE revoked_at IS NULL AND grant_id IS NULL",
                    $owner,
                    " ORDER BY created_at DESC, id DESC"
                )
            };
        }
        let rows = match owner {
            Some(owner) => {
                let sql = list!(" AND owner_kind = ?1 AND owner_id = ?2");
                self.db.listing_for(Share::of(owner)).query(sql, params![kind(owner), owner.as_str()]).await?
            }
            None => self.db.listing_for(Share::default()).query(list!(""), params![]).await?,
        };
        Ok(readable("api_tokens", &rows, read)?)
    }

    async fn revoke(&self, owner: Option<&Subject>, id: &TokenId, at: Timestamp) -> Result<bool, TokenStoreError> {
        let revoked = match owner {
            Some(owner) => {
                let sql = "UPDATE api_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL \
                           AND owner_kind = ?3 AND owner_id = ?4";
                let db = self.db.writing_for(Share::of(owner));
                db.execute(sql, params![id, at, kind(owner), owner.as_str()]).await
            }
            None => {
                let sql = "UPDATE api_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
                self.db.execute(sql, params![id, at]).await
            }
        };
        Ok(revoked? > 0)
    }

    async fn revoke_all(&self, owner: &Subject, at: Timestamp) -> Result<u64, TokenStoreError> {
        let sql =
            "UPDATE api_tokens SET revoked_at = ?3 WHERE owner_kind = ?1 AND owner_id = ?2 AND revoked_at IS NULL";
        Ok(self.db.execute(sql, params![kind(owner), owner.as_str(), at]).await?)
    }

    async fn remove_all(&self, owner: &Subject) -> Result<u64, TokenStoreError> {
        let sql = "DELETE FROM api_tokens WHERE owner_kind = ?1 AND owner_id = ?2";
        Ok(self.db.execute(sql, params![kind(owner), owner.as_str()]).await?)
    }

    async fn touch(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), TokenStoreError> {
        // In one order, so that two replicas that write down the same tokens do not wait for each other in a circle.
        let mut uses = uses.to_vec();
        uses.sort();
        let touch = async move |tx: &Tx| -> Result<(), Error> {
            for (id, at) in &uses {
                let sql = "UPDATE api_tokens SET last_used_at = ?2 \
                           WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
                tx.execute(sql, params![id, *at]).await?;
            }
            Ok(())
        };
        Ok(self.db.write(touch).await?)
    }

    fn within(self: Arc<Self>) -> Option<Arc<dyn TokensWithin>> {
        Some(self)
    }

    fn delegated_tokens(self: Arc<Self>) -> Option<Arc<dyn DelegatedTokens>> {
        Some(self)
    }
}

#[async_trait]
impl TokensWithin for SqlTokenStore {
    fn database(&self) -> &Db {
        &self.db
    }

    async fn create(&self, tx: &Tx, token: &StoredToken, hash: &TokenHash, most: Option<u32>) -> Result<bool, Error> {
        let (owner, now) = (&token.owner, token.created_at);
        if let Some(most) = most
            && !has_room(tx, owner, most, now).await?
        {
            return Ok(false);
        }
        let forgotten = now.checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN);
        tx.execute(&self.sweep, params![forgotten, RECLAIMED_AT_ONCE]).await?;
        let kept = i64::from(TokenError::MOST);
        tx.execute(BEYOND_THE_MOST, params![kind(owner), owner.as_str(), kept]).await?;
        let sql = "INSERT INTO api_tokens \
                   (id, token_hash, prefix, name, owner_kind, owner_id, scopes, created_at, expires_at, \
                   client_id, grant_id, audience, tenant_id) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let values = params![
            &token.id,
            hash.as_bytes(),
            &token.prefix,
            &token.name,
            kind(owner),
            owner.as_str(),
            // Scopes are texts, which are always JSON.
            serde_json::to_string(&token.scopes).unwrap_or_default(),
            token.created_at,
            token.expires_at,
            token.delegation.as_ref().map(|delegation| &*delegation.client),
            token.delegation.as_ref().map(|delegation| &*delegation.grant),
            token.delegation.as_ref().map(|delegation| &*delegation.audience),
            token.delegation.as_ref().and_then(|delegation| delegation.tenant.as_ref())
        ];
        tx.execute(sql, values).await?;
        Ok(true)
    }
}

#[async_trait]
impl DelegatedTokens for SqlTokenStore {
    async fn revoke_of_grant(&self, grant: &str, keep: u32, at: Timestamp) -> Result<u64, TokenStoreError> {
        let sql = "UPDATE api_tokens SET revoked_at = ?2 WHERE grant_id = ?1 AND revoked_at IS NULL AND id NOT IN \
                   (SELECT id FROM api_tokens WHERE grant_id = ?1 AND revoked_at IS NULL \
                   ORDER BY created_at DESC, id DESC LIMIT ?3)";
        Ok(self.db.execute(sql, params![grant, at, i64::from(keep)]).await?)
    }

    async fn revoke_of_client(&self, client: &str, at: Timestamp) -> Result<u64, TokenStoreError> {
        let sql = "UPDATE api_tokens SET revoked_at = ?2 WHERE client_id = ?1 AND revoked_at IS NULL";
        Ok(self.db.execute(sql, params![client, at]).await?)
    }
}

/// Whether an owner may have one more token. Other calls for this owner wait until the transaction has ended, so that each sees
/// the tokens of those before it. Expired tokens do not count: a program that creates a short-lived one every hour never has to
/// clean up.
async fn has_room(tx: &Tx, owner: &Subject, most: u32, now: Timestamp) -> Result<bool, Error> {
    dialect::hold_name(tx, &format!("API tokens of {} {}", kind(owner), owner.as_str())).await?;
    let sql = "SELECT COUNT(*) AS n FROM api_tokens \
               WHERE owner_kind = ?1 AND owner_id = ?2 AND revoked_at IS NULL AND grant_id IS NULL";
    let row = tx.query_opt(sql, params![kind(owner), owner.as_str()]).await?;
    let count = row.map_or(Ok(0), |row| row.get::<i64>("n"))?;
    if count < i64::from(most) {
        return Ok(true);
    }
    let sql = "UPDATE api_tokens SET revoked_at = ?3 WHERE owner_kind = ?1 AND owner_id = ?2 AND revoked_at IS NULL \
               AND grant_id IS NULL AND expires_at <= ?3";
    let expired = tx.execute(sql, params![kind(owner), owner.as_str(), now]).await?;
    Ok(count - i64::try_from(expired).unwrap_or(i64::MAX) < i64::from(most))
}

const USER: &str = "user";
const SERVICE: &str = "service";

/// The name of a kind of owner that the table keeps. It never changes.
fn kind(owner: &Subject) -> &'static str {
    match owner {
        Subject::User(_) => USER,
        Subject::Service(_) => SERVICE,
    }
}

fn read(row: &Row) -> Result<StoredToken, Error> {
    let corrupt = |column: &str, expected| Error::Corrupt {
        statement: "a read of api_tokens".to_owned(),
        column: column.to_owned(),
        found: "text",
        expected,
    };
    let owner_id = row.get::<String>("owner_id")?;
    let not_an_id = |_| corrupt("owner_id", "an identifier");
    let owner = match row.get::<String>("owner_kind")?.as_str() {
        USER => Subject::User(Id::parse(&owner_id).map_err(not_an_id)?),
        SERVICE => Subject::Service(Id::parse(&owner_id).map_err(not_an_id)?),
        _ => return Err(corrupt("owner_kind", "user or service")),
    };
    let scopes: Scopes =
        serde_json::from_str(&row.get::<String>("scopes")?).map_err(|_| corrupt("scopes", "a JSON list of scopes"))?;
    let client: Option<String> = row.get("client_id")?;
    let delegation = match (client, row.get("grant_id")?, row.get("audience")?) {
        (Some(client), Some(grant), Some(audience)) => {
            Some(Delegation { client, grant, audience, tenant: row.get("tenant_id")? })
        }
        (None, None, None) => None,
        _ => return Err(corrupt("client_id", "a client together with a grant and an audience")),
    };
    Ok(StoredToken {
        id: row.get("id")?,
        name: row.get("name")?,
        prefix: row.get("prefix")?,
        owner,
        scopes,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        last_used_at: row.get("last_used_at")?,
        revoked_at: row.get("revoked_at")?,
        delegation,
    })
}
