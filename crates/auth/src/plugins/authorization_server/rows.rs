//! Grants and refresh tokens.
//!
//! A grant begins as an authorization code and continues as a family of refresh tokens. Only the newest one is valid.
//! Codes and refresh tokens are stored as hashes.

use gatewright_base::{Scopes, TenantId, UserId};
use gatewright_db::{Db, Error, Row, Tx, params};
use jiff::{SignedDuration, Timestamp};

use super::openid::id_token::Login;
use super::openid::logouts::Tell;
use super::secret::Hash;
use crate::open_session::OpenSession;

/// How long a grant that has ended, or whose code was never used, is kept, so that a reused code or token is
/// distinguished from a guess.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);
/// Rows that each new grant removes. More than one, so that the tables shrink to the live rows.
const RECLAIMED_AT_ONCE: i64 = 64;
/// Limits of a user's unused codes, and of a user's live grants at one client. The oldest is removed.
const MOST: u8 = 20;

/// A grant as the tables have it.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) id: String,
    pub(super) user: UserId,
    pub(super) client: String,
    /// The URL of the resource.
    pub(super) resource: String,
    /// The tenant that the user chose.
    pub(super) tenant: Option<TenantId>,
    pub(super) scopes: Scopes,
    /// As in the authorization request; absent if it had none.
    pub(super) redirect_uri: Option<String>,
    pub(super) challenge: String,
    /// How the user was signed in, if the client wanted to know.
    pub(super) login: Option<Login>,
    pub(super) created_at: Timestamp,
}

/// The result for a presented code.
#[derive(Debug)]
pub(super) enum Presented {
    /// It was valid and is spent now: of parallel calls one gets this.
    Good(Grant),
    /// It was spent before.
    Replayed(Grant),
    /// It is unknown, expired, or its grant has ended.
    Unknown,
}

/// The result for a presented refresh token.
#[derive(Debug)]
pub(super) enum Rotated<T, E> {
    /// It was valid and is spent now, and its grant was checked: of parallel calls one gets this.
    Good(Grant, T),
    /// The check refused its grant. The token stays valid.
    Refused(E),
    /// It was spent a moment ago: the sealed answer of then, and the result of the check.
    Again(Grant, T, Vec<u8>),
    /// It was spent before.
    Replayed(Grant),
    /// It is unknown, expired, or its grant has ended.
    Unknown,
}

/// How long a spent refresh token gives its client the same answer again: two refreshes at once, or one whose answer was lost.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct Grants {
    db: Db,
}

const COLUMNS: &str = "id, user_id, client_id, resource, tenant_id, scopes, redirect_uri, challenge, login, created_at";

/// The grant of a refresh token.
const OF_REFRESH: &str = "SELECT g.id, g.user_id, g.client_id, g.resource, g.tenant_id, g.scopes, g.redirect_uri, g.challenge, \
     g.login, g.created_at, g.ended_at, r.used_at, r.expires_at, r.answer FROM oauth2_refresh_tokens r \
     JOIN oauth2_grants g ON g.id = r.grant_id WHERE r.token_hash = ?1 AND g.client_id = ?2";

impl Grants {
    pub(super) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Stores a new grant, whose code is valid until `expires`, and whom to tell when its session ends. `false`: the session of
    /// its user has ended.
    pub(super) async fn begin(
        &self,
        open: &OpenSession,
        grant: &Grant,
        code: &Hash,
        expires: Timestamp,
        tell: Option<Tell>,
    ) -> Result<bool, Error> {
        let (open, grant, code) = (open.clone(), grant.clone(), *code);
        let begin = async move |tx: &Tx| -> Result<bool, Error> {
            if !open.holds(tx).await? {
                return Ok(false);
            }
            Self::store(tx, &grant, &code, expires).await?;
            if let Some(tell) = &tell {
                tell.store(tx).await?;
            }
            Ok(true)
        };
        self.db.write(begin).await
    }

    /// The same within a transaction that has found the session open.
    pub(super) async fn store(tx: &Tx, grant: &Grant, code: &Hash, expires: Timestamp) -> Result<(), Error> {
        let now = grant.created_at;
        for sql in [
            "DELETE FROM oauth2_grants WHERE id IN \
             (SELECT id FROM oauth2_grants WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
            "DELETE FROM oauth2_refresh_tokens WHERE token_hash IN \
             (SELECT token_hash FROM oauth2_refresh_tokens WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        ] {
            tx.execute(sql, params![now, RECLAIMED_AT_ONCE]).await?;
        }
        let sql = "DELETE FROM oauth2_grants WHERE id IN (SELECT id FROM oauth2_grants WHERE user_id = ?1 \
                   AND code_used_at IS NULL ORDER BY created_at DESC, id DESC LIMIT ?2 OFFSET ?3)";
        tx.execute(sql, params![&grant.user, RECLAIMED_AT_ONCE, i64::from(MOST) - 1]).await?;
        let sql = "INSERT INTO oauth2_grants (id, user_id, client_id, resource, scopes, code_hash, redirect_uri, \
                   challenge, created_at, code_expires_at, expires_at, tenant_id, login) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let scopes = serde_json::to_string(&grant.scopes).unwrap_or_default();
        let values = params![
            &grant.id,
            &grant.user,
            &grant.client,
            &grant.resource,
            scopes,
            code.as_bytes(),
            grant.redirect_uri.as_deref(),
            &grant.challenge,
            now,
            expires,
            later(expires, REMEMBERED),
            grant.tenant.as_ref(),
            grant.login.as_ref().map(|login| serde_json::to_string(login).unwrap_or_default())
        ];
        tx.execute(sql, values).await.map(|_| ())
    }

    /// Uses up a code of `client`. A grant that continues is kept until `until`.
    pub(super) async fn redeem(
        &self,
        code: &Hash,
        client: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Presented, Error> {
        let (code, client) = (*code, client.to_owned());
        let redeem = async move |tx: &Tx| -> Result<Presented, Error> {
            let sql = format!(
                "SELECT {COLUMNS}, code_expires_at, code_used_at, ended_at FROM oauth2_grants \
                 WHERE code_hash = ?1 AND client_id = ?2"
            );
            let Some(row) = tx.query_opt(sql, params![code.as_bytes(), &client]).await? else {
                return Ok(Presented::Unknown);
            };
            let grant = read(&row)?;
            if row.get::<Option<Timestamp>>("code_used_at")?.is_some() {
                return Ok(Presented::Replayed(grant));
            }
            if row.get::<Timestamp>("code_expires_at")? <= now || row.get::<Option<Timestamp>>("ended_at")?.is_some() {
                return Ok(Presented::Unknown);
            }
            let sql = "UPDATE oauth2_grants SET code_used_at = ?2, expires_at = ?3 \
                       WHERE id = ?1 AND code_used_at IS NULL";
            let won = tx.execute(sql, params![&grant.id, now, until]).await? == 1;
            Ok(if won { Presented::Good(grant) } else { Presented::Replayed(grant) })
        };
        self.db.write(redeem).await
    }

    /// Stores the next refresh token of a grant. `false`: the grant has ended in between.
    pub(super) async fn add_refresh(
        &self,
        grant: &str,
        token: &Hash,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, Error> {
        let (grant, token) = (grant.to_owned(), *token);
        let add = async move |tx: &Tx| -> Result<bool, Error> {
            let sql = "UPDATE oauth2_grants SET expires_at = ?2 WHERE id = ?1 AND ended_at IS NULL";
            if tx.execute(sql, params![&grant, until]).await? == 0 {
                return Ok(false);
            }
            // The answer with this token may be given twice.
            let sql = "INSERT INTO oauth2_refresh_tokens (token_hash, grant_id, created_at, expires_at) \
                       VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
            tx.execute(sql, params![token.as_bytes(), &grant, now, until]).await?;
            Ok(true)
        };
        self.db.write(add).await
    }

    /// Uses up a refresh token of `client`, if `check` accepts its grant, and keeps the sealed answer for a moment, if
    /// there is one. A token that was used long before is not checked.
    pub(super) async fn rotate<T: Send + 'static, E: Send + 'static>(
        &self,
        token: &Hash,
        client: &str,
        now: Timestamp,
        answer: Option<Vec<u8>>,
        check: impl Fn(&Grant) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Rotated<T, E>, Error> {
        let (token, client) = (*token, client.to_owned());
        let rotate = async move |tx: &Tx| -> Result<Rotated<T, E>, Error> {
            loop {
                let Some(row) = tx.query_opt(OF_REFRESH, params![token.as_bytes(), &client]).await? else {
                    return Ok(Rotated::Unknown);
                };
                let grant = read(&row)?;
                if row.get::<Option<Timestamp>>("ended_at")?.is_some() || row.get::<Timestamp>("expires_at")? <= now {
                    return Ok(Rotated::Unknown);
                }
                if let Some(used_at) = row.get::<Option<Timestamp>>("used_at")? {
                    let kept = row.get::<Option<Vec<u8>>>("answer")?.filter(|_| now < later(used_at, AGAIN));
                    let Some(kept) = kept else { return Ok(Rotated::Replayed(grant)) };
                    return Ok(match check(&grant) {
                        Ok(checked) => Rotated::Again(grant, checked, kept),
                        Err(refused) => Rotated::Refused(refused),
                    });
                }
                let checked = match check(&grant) {
                    Ok(checked) => checked,
                    Err(refused) => return Ok(Rotated::Refused(refused)),
                };
                let sql = "UPDATE oauth2_refresh_tokens SET used_at = ?2, answer = ?3 WHERE token_hash = ?1 AND used_at IS NULL";
                if tx.execute(sql, params![token.as_bytes(), now, answer.clone()]).await? == 0 {
                    // Another request was faster: it is spent now.
                    continue;
                }
                return Ok(Rotated::Good(grant, checked));
            }
        };
        self.db.write(rotate).await
    }

    /// Removes sealed answers that are not given again.
    pub(super) async fn forget_answers(&self, now: Timestamp) -> Result<(), Error> {
        let over = now.checked_sub(AGAIN).unwrap_or(Timestamp::MIN);
        // A write takes a turn of the writer, also if it changes nothing.
        let sql = "SELECT 1 AS found FROM oauth2_refresh_tokens WHERE answer IS NOT NULL AND used_at <= ?1 LIMIT 1";
        if self.db.query_opt(sql, params![over]).await?.is_some() {
            let sql = "UPDATE oauth2_refresh_tokens SET answer = NULL WHERE token_hash IN (SELECT token_hash \
                       FROM oauth2_refresh_tokens WHERE answer IS NOT NULL AND used_at <= ?1 LIMIT 1000)";
            self.db.execute(sql, params![over]).await?;
        }
        Ok(())
    }

    /// The grant of a live refresh token of `client`, which stays unchanged.
    pub(super) async fn of_refresh(
        &self,
        token: &Hash,
        client: &str,
        now: Timestamp,
    ) -> Result<Option<(Grant, Timestamp)>, Error> {
        let sql = format!("{OF_REFRESH} AND g.ended_at IS NULL AND r.used_at IS NULL AND r.expires_at > ?3");
        let row = self.db.query_opt(sql, params![token.as_bytes(), client, now]).await?;
        row.map(|row| Ok((read(&row)?, row.get("expires_at")?))).transpose()
    }

    /// The grant of a code or a refresh token of `client`, whatever has become of the two.
    pub(super) async fn of_any(&self, token: &Hash, client: &str) -> Result<Option<String>, Error> {
        let sql = "SELECT g.id FROM oauth2_refresh_tokens r JOIN oauth2_grants g ON g.id = r.grant_id \
                   WHERE r.token_hash = ?1 AND g.client_id = ?2 \
                   UNION SELECT id FROM oauth2_grants WHERE code_hash = ?1 AND client_id = ?2";
        self.db.query_opt(sql, params![token.as_bytes(), client]).await?.map(|row| row.get("id")).transpose()
    }

    /// Whether a grant has not ended.
    pub(super) async fn is_live(&self, id: &str) -> Result<bool, Error> {
        let sql = "SELECT 1 AS live FROM oauth2_grants WHERE id = ?1 AND ended_at IS NULL";
        Ok(self.db.query_opt(sql, params![id]).await?.is_some())
    }

    /// Ends a grant: its code and refresh tokens are refused from now on.
    pub(super) async fn end(&self, id: &str, now: Timestamp) -> Result<bool, Error> {
        let sql = "UPDATE oauth2_grants SET ended_at = ?2, expires_at = ?3 WHERE id = ?1 AND ended_at IS NULL";
        Ok(self.db.execute(sql, params![id, now, later(now, REMEMBERED)]).await? > 0)
    }

    /// The live grants of a user at one client, the newest first.
    pub(super) async fn of_user(&self, user: &UserId, client: &str) -> Result<Vec<String>, Error> {
        let sql = "SELECT id FROM oauth2_grants WHERE user_id = ?1 AND client_id = ?2 AND ended_at IS NULL \
                   ORDER BY created_at DESC, id DESC";
        self.db.query(sql, params![user, client]).await?.iter().map(|row| row.get("id")).collect()
    }

    /// The grants of a user that are live, or ended at `since` or later.
    pub(super) async fn since(&self, user: &UserId, since: Timestamp) -> Result<Vec<String>, Error> {
        let sql = "SELECT id FROM oauth2_grants WHERE user_id = ?1 AND (ended_at IS NULL OR ended_at >= ?2)";
        self.db.query(sql, params![user, since]).await?.iter().map(|row| row.get("id")).collect()
    }

    /// The grants of a user at one client in one tenant that are live or ended at `since` or later.
    pub(super) async fn in_tenant(
        &self,
        user: &UserId,
        client: &str,
        tenant: Option<&TenantId>,
        since: Timestamp,
    ) -> Result<Vec<String>, Error> {
        let sql = "SELECT id FROM oauth2_grants WHERE user_id = ?1 AND client_id = ?2 \
                   AND (ended_at IS NULL OR ended_at >= ?4) AND COALESCE(tenant_id, '') = ?3";
        let tenant = tenant.map_or("", TenantId::as_str);
        self.db.query(sql, params![user, client, tenant, since]).await?.iter().map(|row| row.get("id")).collect()
    }

    /// The live grants of a client.
    pub(super) async fn of_client(&self, client: &str) -> Result<Vec<String>, Error> {
        let sql = "SELECT id FROM oauth2_grants WHERE client_id = ?1 AND ended_at IS NULL";
        self.db.query(sql, params![client]).await?.iter().map(|row| row.get("id")).collect()
    }

    /// How many grants a user may have at one client.
    pub(super) const fn most_of_client() -> usize {
        MOST as usize
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn read(row: &Row) -> Result<Grant, Error> {
    let corrupt = |column: &str, expected| Error::Corrupt {
        statement: "a read of oauth2_grants".to_owned(),
        column: column.to_owned(),
        found: "text",
        expected,
    };
    let user: String = row.get("user_id")?;
    let scopes: String = row.get("scopes")?;
    let login = row.get::<Option<String>>("login")?.map(|login| serde_json::from_str(&login)).transpose();
    Ok(Grant {
        id: row.get("id")?,
        user: UserId::parse(&user).map_err(|_| corrupt("user_id", "an identifier"))?,
        client: row.get("client_id")?,
        resource: row.get("resource")?,
        tenant: row.get("tenant_id")?,
        scopes: serde_json::from_str(&scopes).map_err(|_| corrupt("scopes", "a JSON list of scopes"))?,
        redirect_uri: row.get("redirect_uri")?,
        challenge: row.get("challenge")?,
        login: login.map_err(|_| corrupt("login", "the sign-in of a user"))?,
        created_at: row.get("created_at")?,
    })
}

#[cfg(test)]
mod tests {
    use gatewright_db::testing::engines;

    use super::super::consents::{Consented, Consents};
    use super::super::migrations::MIGRATIONS;
    use super::*;

    #[tokio::test]
    async fn migrated_consents_and_grants_keep_their_data_and_have_no_tenant() {
        for engine in engines().await {
            let db = engine.db.clone();
            gatewright_db::migrate(&db, "authorization_server", &MIGRATIONS[..1]).await.unwrap();
            let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
            for (id, resource) in [("c1", "https://a.example"), ("c2", "https://a.example/mcp")] {
                let sql = "INSERT INTO oauth2_consents (id, user_id, client_id, resource, client_name, client_host, scopes, \
                           created_at, last_used_at) VALUES (?1, 'u', 'client', ?2, 'App', 'a.example', ?3, ?4, ?4)";
                db.execute(sql, params![id, resource, "[\"notes:read\"]", at]).await.unwrap();
            }
            let sql = "INSERT INTO oauth2_grants (id, user_id, client_id, resource, scopes, code_hash, challenge, created_at, \
                       code_expires_at, code_used_at, expires_at) \
                       VALUES ('g', 'u', 'client', 'https://a.example', '[]', ?1, 'x', ?2, ?2, ?2, ?2)";
            db.execute(sql, params![vec![1_u8], at]).await.unwrap();
            let before = "SELECT id, user_id, client_id, resource, client_name, client_host, scopes, created_at, last_used_at \
                          FROM oauth2_consents ORDER BY id";
            let rows = async || {
                let rows = db.query(before, params![]).await.unwrap();
                let text = |row: &Row, name: &str| row.get::<String>(name).unwrap();
                let time = |row: &Row, name: &str| row.get::<Timestamp>(name).unwrap();
                let names = ["id", "user_id", "client_id", "resource", "client_name", "client_host", "scopes"];
                let values = |row: &Row| {
                    (names.map(|name| text(row, name)), ["created_at", "last_used_at"].map(|name| time(row, name)))
                };
                rows.iter().map(values).collect::<Vec<_>>()
            };
            let kept = rows().await;
            assert_eq!(kept.len(), 2);
            gatewright_db::migrate(&db, "authorization_server", MIGRATIONS).await.unwrap();
            assert_eq!(rows().await, kept, "{}", engine.name);
            let of = Consented {
                user: UserId::parse("u").unwrap(),
                client: "client".to_owned(),
                resource: "https://a.example".to_owned(),
                tenant: None,
            };
            let found = Consents::new(db.clone()).find(&of).await.unwrap().expect("the consent of before");
            assert_eq!((&*found.id, found.tenant), ("c1", None));
            assert_eq!(Grants::new(db).in_tenant(&of.user, "client", None, at).await.unwrap(), ["g"]);
        }
    }
}
