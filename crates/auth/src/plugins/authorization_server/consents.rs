use gatewright_base::{Ambient, Scopes, UserId};
use gatewright_db::{Db, Error, Row, Tx, params};
use jiff::Timestamp;

use super::client::Client;

/// What users allowed which programs, in the table `oauth2_consents`.
#[derive(Debug, Clone)]
pub(super) struct Consents {
    db: Db,
}

/// One program that a user connected, at one resource.
#[derive(Debug, Clone)]
pub(super) struct Consent {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) host: Option<String>,
    pub(super) scopes: Scopes,
    pub(super) created_at: Timestamp,
    /// When the program last got a token.
    pub(super) last_used_at: Option<Timestamp>,
}

/// The most programs that a user may connect.
pub(super) const MOST: usize = 200;

const COLUMNS: &str = "id, client_id, client_name, client_host, scopes, created_at, last_used_at";

impl Consents {
    pub(super) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(super) async fn find(&self, user: &UserId, client: &str, resource: &str) -> Result<Option<Consent>, Error> {
        let sql =
            format!("SELECT {COLUMNS} FROM oauth2_consents WHERE user_id = ?1 AND client_id = ?2 AND resource = ?3");
        self.db.query_opt(sql, params![user, client, resource]).await?.as_ref().map(read).transpose()
    }

    pub(super) async fn of_user(&self, user: &UserId) -> Result<Vec<Consent>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM oauth2_consents WHERE user_id = ?1 ORDER BY created_at DESC, id DESC");
        self.db.query(sql, params![user]).await?.iter().map(read).collect()
    }

    /// Remembers that a user allows `scopes` to a client at a resource, beside what they allowed before. `false`: the user has
    /// [`MOST`] programs already.
    pub(super) async fn remember(
        &self,
        ambient: &Ambient,
        user: &UserId,
        client: &Client,
        resource: &str,
        scopes: &Scopes,
    ) -> Result<bool, Error> {
        let (user, client, resource, scopes) = (user.clone(), client.clone(), resource.to_owned(), scopes.clone());
        let (id, now) = (ambient.uuid().to_string(), ambient.now());
        let remember = async move |tx: &Tx| -> Result<bool, Error> {
            let sql = format!(
                "SELECT {COLUMNS} FROM oauth2_consents WHERE user_id = ?1 AND client_id = ?2 AND resource = ?3"
            );
            let before = tx.query_opt(sql, params![&user, &client.id, &resource]).await?;
            let before = before.as_ref().map(read).transpose()?;
            if before.is_none() {
                let sql = "SELECT COUNT(*) AS n FROM oauth2_consents WHERE user_id = ?1";
                let kept = tx.query_opt(sql, params![&user]).await?;
                let kept: i64 = kept.map_or(Ok(0), |row| row.get("n"))?;
                if usize::try_from(kept).unwrap_or(usize::MAX) >= MOST {
                    return Ok(false);
                }
            }
            let mut all: Vec<_> = before.iter().flat_map(|consent| consent.scopes.iter().cloned()).collect();
            all.extend(
                scopes.iter().filter(|scope| before.iter().all(|b| !b.scopes.iter().any(|s| s == *scope))).cloned(),
            );
            let sql = "INSERT INTO oauth2_consents \
                       (id, user_id, client_id, resource, client_name, client_host, scopes, created_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (user_id, client_id, resource) DO UPDATE SET \
                       client_name = excluded.client_name, client_host = excluded.client_host, scopes = excluded.scopes";
            let scopes = serde_json::to_string(&Scopes::new(all)).unwrap_or_default();
            let values =
                params![&id, &user, &client.id, &resource, &client.name, client.host().as_deref(), scopes, now];
            tx.execute(sql, values).await?;
            Ok(true)
        };
        self.db.write(remember).await
    }

    /// Notes that a client got a token.
    pub(super) async fn used(&self, user: &UserId, client: &str, resource: &str, now: Timestamp) -> Result<(), Error> {
        let sql = "UPDATE oauth2_consents SET last_used_at = ?4 \
                   WHERE user_id = ?1 AND client_id = ?2 AND resource = ?3";
        self.db.execute(sql, params![user, client, resource, now]).await.map(|_| ())
    }

    /// Forgets one of a user's programs, and returns its client.
    pub(super) async fn forget(&self, user: &UserId, id: &str) -> Result<Option<String>, Error> {
        let sql = "SELECT client_id FROM oauth2_consents WHERE user_id = ?1 AND id = ?2";
        let Some(row) = self.db.query_opt(sql, params![user, id]).await? else { return Ok(None) };
        let client: String = row.get("client_id")?;
        // At every resource: "end" means that the program gets nothing any more without asking.
        let sql = "DELETE FROM oauth2_consents WHERE user_id = ?1 AND client_id = ?2";
        self.db.execute(sql, params![user, &client]).await?;
        Ok(Some(client))
    }

    /// Forgets all of a user's programs, and returns how many there were.
    pub(super) async fn forget_all(&self, user: &UserId) -> Result<u64, Error> {
        self.db.execute("DELETE FROM oauth2_consents WHERE user_id = ?1", params![user]).await
    }

    /// Forgets that anybody connected a client.
    pub(super) async fn forget_client(&self, client: &str) -> Result<u64, Error> {
        self.db.execute("DELETE FROM oauth2_consents WHERE client_id = ?1", params![client]).await
    }
}

fn read(row: &Row) -> Result<Consent, Error> {
    let scopes: String = row.get("scopes")?;
    let scopes = serde_json::from_str(&scopes).map_err(|_| Error::Corrupt {
        statement: "a read of oauth2_consents".to_owned(),
        column: "scopes".to_owned(),
        found: "text",
        expected: "a JSON list of scopes",
    })?;
    Ok(Consent {
        id: row.get("id")?,
        name: row.get("client_name")?,
        host: row.get("client_host")?,
        scopes,
        created_at: row.get("created_at")?,
        last_used_at: row.get("last_used_at")?,
    })
}
