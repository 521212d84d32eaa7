use gatewright_base::{Ambient, Scopes, TenantId, UserId};
use gatewright_db::{Db, Error, Row, Share, Tx, dialect, params, readable};
use jiff::Timestamp;

use super::client::Client;
use crate::open_session::OpenSession;

/// The consents of users to programs, in the table `oauth2_consents`.
#[derive(Debug, Clone)]
pub(super) struct Consents {
    db: Db,
}

/// One program that a user connected, at one resource and in one tenant.
#[derive(Debug, Clone)]
pub(super) struct Consent {
    pub(super) id: String,
    pub(super) client: String,
    pub(super) name: String,
    pub(super) host: Option<String>,
    /// The tenant that the user chose, where the scopes reach data of tenants.
    pub(super) tenant: Option<TenantId>,
    pub(super) scopes: Scopes,
    pub(super) created_at: Timestamp,
    /// When the program last got a token.
    pub(super) last_used_at: Option<Timestamp>,
}

/// To whom a user allowed something, where, and in which tenant.
#[derive(Debug, Clone)]
pub(super) struct Consented {
    pub(super) user: UserId,
    pub(super) client: String,
    /// The URL of the resource.
    pub(super) resource: String,
    pub(super) tenant: Option<TenantId>,
}

/// A program that a user connected in one tenant, or in none.
pub(super) struct Connected {
    pub(super) client: String,
    pub(super) tenant: Option<TenantId>,
}

/// The most programs that a user may connect.
pub(super) const MOST: usize = 200;

const COLUMNS: &str = "id, client_id, client_name, client_host, tenant_id, scopes, created_at, last_used_at";

const THIS: &str = "user_id = ?1 AND client_id = ?2 AND resource = ?3 AND tenant_id = ?4";

impl Consented {
    /// Without a tenant this is the empty text, because a unique constraint treats NULLs as different.
    fn tenant(&self) -> &str {
        self.tenant.as_ref().map_or("", TenantId::as_str)
    }
}

impl Consents {
    pub(super) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(super) async fn find(&self, of: &Consented) -> Result<Option<Consent>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM oauth2_consents WHERE {THIS}");
        let values = params![&of.user, &of.client, &of.resource, of.tenant()];
        self.db.query_opt(sql, values).await?.as_ref().map(read).transpose()
    }

    /// Whether a user has connected a client, at any resource and in any tenant.
    pub(super) async fn any(&self, user: &UserId, client: &str) -> Result<bool, Error> {
        let sql = "SELECT 1 AS found FROM oauth2_consents WHERE user_id = ?1 AND client_id = ?2 LIMIT 1";
        Ok(self.db.query_opt(sql, params![user, client]).await?.is_some())
    }

    pub(super) async fn of_user(&self, user: &UserId) -> Result<Vec<Consent>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM oauth2_consents WHERE user_id = ?1 ORDER BY created_at DESC, id DESC");
        let rows = self.db.listing_for(Share::of_user(user)).query(sql, params![user]).await?;
        readable("oauth2_consents", &rows, read)
    }

    /// The database of consents and grants.
    pub(super) fn database(&self) -> &Db {
        &self.db
    }

    /// Stores that a user allows `scopes` to a client, in addition to earlier ones. `Some(false)`: the user has [`MOST`]
    /// programs already. `None`: the session has ended.
    pub(super) async fn remember(
        &self,
        ambient: &Ambient,
        open: &OpenSession,
        of: &Consented,
        client: &Client,
        scopes: &Scopes,
    ) -> Result<Option<bool>, Error> {
        let (open, of, client, scopes) = (open.clone(), of.clone(), client.clone(), scopes.clone());
        let (id, now, share) = (ambient.uuid().to_string(), ambient.now(), Share::of_user(&of.user));
        let remember = async move |tx: &Tx| -> Result<Option<bool>, Error> {
            if !open.holds(tx).await? {
                return Ok(None);
            }
            // Concurrent calls for one user run one after the other, so that the count is correct and no scopes are lost.
            dialect::hold_name(tx, &format!("consents of {}", of.user)).await?;
            let sql = format!("SELECT {COLUMNS} FROM oauth2_consents WHERE {THIS}");
            let before = tx.query_opt(sql, params![&of.user, &of.client, &of.resource, of.tenant()]).await?;
            let before = before.as_ref().map(read).transpose()?;
            if before.is_none() {
                let sql = "SELECT COUNT(*) AS n FROM oauth2_consents WHERE user_id = ?1";
                let kept = tx.query_opt(sql, params![&of.user]).await?;
                let kept: i64 = kept.map_or(Ok(0), |row| row.get("n"))?;
                if usize::try_from(kept).unwrap_or(usize::MAX) >= MOST {
                    return Ok(Some(false));
                }
            }
            let mut all: Vec<_> = before.iter().flat_map(|consent| consent.scopes.iter().cloned()).collect();
            all.extend(
                scopes.iter().filter(|scope| before.iter().all(|b| !b.scopes.iter().any(|s| s == *scope))).cloned(),
            );
            let sql = "INSERT INTO oauth2_consents \
                       (id, user_id, client_id, resource, tenant_id, client_name, client_host, scopes, created_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
                       ON CONFLICT (user_id, client_id, resource, tenant_id) DO UPDATE SET \
                       client_name = excluded.client_name, client_host = excluded.client_host, scopes = excluded.scopes";
            let scopes = serde_json::to_string(&Scopes::new(all)).unwrap_or_default();
            let values = params![
                &id,
                &of.user,
                &of.client,
                &of.resource,
                of.tenant(),
                &client.name,
                client.host().as_deref(),
                scopes,
                now
            ];
            tx.execute(sql, values).await?;
            Ok(Some(true))
        };
        self.db.writing_for(share).write(remember).await
    }

    /// Notes that a client got a token. `false`: its user has disconnected it.
    pub(super) async fn used(&self, of: &Consented, now: Timestamp) -> Result<bool, Error> {
        let sql = format!("UPDATE oauth2_consents SET last_used_at = ?5 WHERE {THIS}");
        self.db.execute(sql, params![&of.user, &of.client, &of.resource, of.tenant(), now]).await.map(|noted| noted > 0)
    }

    /// One of a user's programs.
    pub(super) async fn connected(&self, user: &UserId, id: &str) -> Result<Option<Connected>, Error> {
        let sql = "SELECT client_id, tenant_id FROM oauth2_consents WHERE user_id = ?1 AND id = ?2";
        let Some(row) = self.db.query_opt(sql, params![user, id]).await? else { return Ok(None) };
        Ok(Some(Connected { client: row.get("client_id")?, tenant: tenant(&row)? }))
    }

    /// Forgets what a user has allowed to a program since `since`.
    pub(super) async fn forget_of(&self, user: &UserId, client: &str, since: Timestamp) -> Result<u64, Error> {
        let sql = "DELETE FROM oauth2_consents WHERE user_id = ?1 AND client_id = ?2 AND created_at >= ?3";
        self.db.execute(sql, params![user, client, since]).await
    }

    /// Forgets a user's program in one tenant, at every resource: it gets nothing there any more without asking.
    pub(super) async fn forget_in(&self, user: &UserId, client: &str, tenant: Option<&TenantId>) -> Result<u64, Error> {
        let sql = "DELETE FROM oauth2_consents WHERE user_id = ?1 AND client_id = ?2 AND tenant_id = ?3";
        self.db.execute(sql, params![user, client, tenant.map_or("", TenantId::as_str)]).await
    }

    /// Removes all consents of a user, and returns how many there were.
    pub(super) async fn forget_all(&self, user: &UserId) -> Result<u64, Error> {
        self.db.execute("DELETE FROM oauth2_consents WHERE user_id = ?1", params![user]).await
    }

    /// Removes all consents to a client.
    pub(super) async fn forget_client(&self, client: &str) -> Result<u64, Error> {
        self.db.execute("DELETE FROM oauth2_consents WHERE client_id = ?1", params![client]).await
    }
}

fn corrupt(column: &str, expected: &'static str) -> Error {
    let statement = "a read of oauth2_consents".to_owned();
    Error::Corrupt { statement, column: column.to_owned(), found: "text", expected }
}

fn tenant(row: &Row) -> Result<Option<TenantId>, Error> {
    let id: String = row.get("tenant_id")?;
    let tenant = (!id.is_empty()).then(|| TenantId::parse(&id)).transpose();
    tenant.map_err(|_| corrupt("tenant_id", "an identifier or nothing"))
}

fn read(row: &Row) -> Result<Consent, Error> {
    let scopes: String = row.get("scopes")?;
    let scopes = serde_json::from_str(&scopes).map_err(|_| corrupt("scopes", "a JSON list of scopes"))?;
    Ok(Consent {
        id: row.get("id")?,
        client: row.get("client_id")?,
        name: row.get("client_name")?,
        host: row.get("client_host")?,
        tenant: tenant(row)?,
        scopes,
        created_at: row.get("created_at")?,
        last_used_at: row.get("last_used_at")?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::join_all;
    use gatewright_base::Roles;
    use gatewright_db::testing::engines;
    use jiff::SignedDuration;

    use super::super::client::{ClientKind, Source};
    use super::super::migrations::MIGRATIONS;
    use super::super::openid::relying::Relying;
    use super::super::rows::{Grant, Grants};
    use super::super::secret::Hash;
    use super::*;
    use crate::email::EmailAddress;
    use crate::password::PasswordHash;
    use crate::users::{NewUser, Sessions, SignOutEverywhere as _, SqlUserStore, UserStore as _};

    fn asked(number: usize, user: &UserId) -> (Client, Consented) {
        let client = Client {
            id: format!("client-{number}"),
            name: "App".to_owned(),
            kind: ClientKind::Public,
            source: Source::Operator,
            redirects: Vec::new(),
            scopes: None,
            identity: Relying::default(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let resource = "https://a.example".to_owned();
        let of = Consented { user: user.clone(), client: client.id.clone(), resource, tenant: None };
        (client, of)
    }

    /// The request of the session came in before, and waited.
    #[tokio::test]
    async fn a_session_that_has_ended_connects_no_program() {
        for engine in engines().await {
            for (part, steps) in [("users", crate::users::MIGRATIONS), ("authorization_server", MIGRATIONS)] {
                gatewright_db::migrate(&engine.db, part, steps).await.unwrap();
            }
            let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
            let users = Arc::new(SqlUserStore::new(engine.db.clone(), ambient.clone()));
            let (email, roles) = (EmailAddress::parse("ann@example.com").unwrap(), Roles::default());
            let password_hash = PasswordHash::from_stored("unusable");
            let ann = users.create(NewUser { email, password_hash, roles, profile: None }).await.unwrap().id;
            let (consents, grants) = (Consents::new(engine.db.clone()), Grants::new(engine.db.clone()));
            let began = ambient.now();
            let open = OpenSession::from(users.clone().users_within(), ann.clone(), began);
            assert!(open.is_shared());
            clock.advance(SignedDuration::from_secs(60));
            for is_open in [true, false] {
                let (client, of) = asked(usize::from(is_open), &ann);
                let grant = Grant {
                    id: client.id.clone(),
                    user: ann.clone(),
                    client: client.id.clone(),
                    resource: of.resource.clone(),
                    tenant: None,
                    scopes: Scopes::default(),
                    redirect_uri: None,
                    challenge: "c".to_owned(),
                    login: None,
                    created_at: ambient.now(),
                };
                let remembered = consents.remember(&ambient, &open, &of, &client, &Scopes::default()).await.unwrap();
                assert_eq!(remembered, is_open.then_some(true), "{}", engine.name);
                let code = Hash::of(&client.id);
                assert_eq!(
                    grants.begin(&open, &grant, &code, ambient.now(), None).await.unwrap(),
                    is_open,
                    "{}",
                    engine.name
                );
                assert_eq!(consents.any(&ann, &client.id).await.unwrap(), is_open, "{}", engine.name);
                // A claim, a reset or a logout everywhere.
                users.refuse_until(&ann, ambient.now(), Sessions::End).await.unwrap();
                clock.advance(SignedDuration::from_secs(60));
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_parallel_consents_do_not_exceed_the_limit_of_programs() {
        for engine in engines().await {
            gatewright_db::migrate(&engine.db, "authorization_server", MIGRATIONS).await.unwrap();
            let (consents, user) = (Consents::new(engine.db.clone()), UserId::parse("ann").unwrap());
            let ambient = Ambient::manual(Timestamp::UNIX_EPOCH, 1).0;
            let remember = async |number: usize| {
                let (client, of) = asked(number, &user);
                let open = OpenSession::from(None, of.user.clone(), Timestamp::UNIX_EPOCH);
                consents.remember(&ambient, &open, &of, &client, &Scopes::default()).await.unwrap().unwrap()
            };
            let remembered = join_all((1..MOST).map(remember)).await;
            assert!(remembered.into_iter().all(|remembered| remembered), "{}", engine.name);
            let remembered = join_all((MOST..MOST + 20).map(remember)).await;
            assert_eq!(remembered.into_iter().filter(|remembered| *remembered).count(), 1, "{}", engine.name);
            assert_eq!(consents.of_user(&user).await.unwrap().len(), MOST, "{}", engine.name);
        }
    }
}
