use gatewright_base::{Scopes, ServiceId};
use gatewright_db::{Db, Error, Row, Tx, dialect, params, readable};
use jiff::{SignedDuration, Timestamp};

use super::client::{Client, ClientKind, Source};
use super::openid::relying::RelyingParty;
use super::redirect::RedirectUri;

/// Registered clients, in the table `oauth2_clients`. Those with a metadata document are not stored.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    db: Db,
}

/// Limit of clients that registered themselves. Any program can do so if this is enabled.
const MAX_REGISTERED: i64 = 10_000;
/// The most of one network that no user has connected.
const MAX_UNCONNECTED: i64 = 500;
/// How long a client that registered itself may stay without a user's consent.
const UNUSED: SignedDuration = SignedDuration::from_hours(24);
/// Unused ones that each registration removes. More than one, so that the table shrinks.
const RECLAIMED_AT_ONCE: i64 = 32;
/// How many clients one user keeps in a full table, the last used ones. Others of the user's clients may be displaced.
pub(super) const KEPT_OF_USER: i64 = 10;
/// How many connected clients of one network are kept in a full table.
const KEPT_OF_NETWORK: i64 = 2_000;

/// The clients that registered themselves (`?1`) and that a full table keeps: users have connected them, and used them after
/// `?2`. Of each user and of each network, only the last used ones count, so that a few accounts do not keep the whole table.
const KEPT: &str = "WITH uses AS (SELECT o.id, o.user_id, o.client_id, c.network, COALESCE(o.last_used_at, o.created_at) AS used \
     FROM oauth2_consents o JOIN oauth2_clients c ON c.id = o.client_id WHERE c.source = ?1), \
     of_users AS (SELECT client_id, network, used, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY used DESC, id DESC) AS place \
     FROM uses), \
     of_clients AS (SELECT client_id, network, MAX(used) AS used FROM of_users WHERE place <= ?3 AND used > ?2 \
     GROUP BY client_id, network), \
     of_networks AS (SELECT client_id, ROW_NUMBER() OVER (PARTITION BY network ORDER BY used DESC, client_id) AS place \
     FROM of_clients) \
     SELECT client_id FROM of_networks WHERE place <= ?4";

impl Clients {
    pub(super) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(super) async fn find(&self, id: &str) -> Result<Option<Client>, Error> {
        // Postgres has no texts with it.
        if id.contains('\0') {
            return Ok(None);
        }
        let sql = "SELECT id, name, source, secret_hash, service_id, redirect_uris, scopes, relying_party, created_at \
                   FROM oauth2_clients WHERE id = ?1";
        self.db.query_opt(sql, params![id]).await?.as_ref().map(read).transpose()
    }

    pub(super) async fn list(&self) -> Result<Vec<Client>, Error> {
        let sql = "SELECT id, name, source, secret_hash, service_id, redirect_uris, scopes, relying_party, created_at \
                   FROM oauth2_clients ORDER BY created_at, id";
        readable("oauth2_clients", &self.db.query(sql, params![]).await?, read)
    }

    /// Adds a client, which registers itself from `network`. If the limit of its network or of the whole table is reached,
    /// the oldest client that no user has connected is removed. Without one, connected clients are removed that their users
    /// have not used since `idle`, or beyond the share of a user or a network. `false`: the table is full of others.
    pub(super) async fn add(&self, client: &Client, network: Option<String>, idle: Timestamp) -> Result<bool, Error> {
        let registers_itself = client.source == Source::Registration;
        let client = client.clone();
        let add = async move |tx: &Tx| -> Result<bool, Error> {
            if registers_itself {
                // One after the other: of two that displace the same client at once, one would find none.
                dialect::hold_name(tx, "registrations of clients").await?;
                let unused = client.created_at.checked_sub(UNUSED).unwrap_or(Timestamp::MIN);
                let sql = "DELETE FROM oauth2_clients WHERE id IN (SELECT c.id FROM oauth2_clients c \
                           WHERE c.source = ?1 AND c.created_at <= ?2 \
                           AND NOT EXISTS (SELECT 1 FROM oauth2_consents o WHERE o.client_id = c.id) LIMIT ?3)";
                tx.execute(sql, params![Source::Registration.name(), unused, RECLAIMED_AT_ONCE]).await?;
                if let Some(network) = &network {
                    let sql = "DELETE FROM oauth2_clients WHERE id IN (SELECT c.id FROM oauth2_clients c \
                               WHERE c.network = ?1 AND c.source = ?2 \
                               AND NOT EXISTS (SELECT 1 FROM oauth2_consents o WHERE o.client_id = c.id) \
                               ORDER BY c.created_at DESC, c.id DESC LIMIT ?3 OFFSET ?4)";
                    let values =
                        params![network.as_str(), Source::Registration.name(), RECLAIMED_AT_ONCE, MAX_UNCONNECTED - 1];
                    tx.execute(sql, values).await?;
                }
                let sql = "SELECT COUNT(*) AS n FROM oauth2_clients WHERE source = ?1";
                let kept = tx.query_opt(sql, params![Source::Registration.name()]).await?;
                let kept: i64 = kept.map_or(Ok(0), |row| row.get("n"))?;
                if kept >= MAX_REGISTERED {
                    let sql = "DELETE FROM oauth2_clients WHERE id IN (SELECT c.id FROM oauth2_clients c \
                               WHERE c.source = ?1 \
                               AND NOT EXISTS (SELECT 1 FROM oauth2_consents o WHERE o.client_id = c.id) \
                               ORDER BY c.created_at, c.id LIMIT 1)";
                    let displaced = tx.execute(sql, params![Source::Registration.name()]).await?;
                    if displaced == 0 && displace_connected(tx, idle).await? == 0 {
                        return Ok(false);
                    }
                }
            }
            let (secret, account) = match &client.kind {
                ClientKind::Public => (None, None),
                ClientKind::Confidential { secret } => (Some(secret), None),
                ClientKind::Service { secret, account } => (Some(secret), Some(account)),
            };
            let redirects: Vec<_> = client.redirects.iter().map(RedirectUri::as_str).collect();
            let redirects = serde_json::to_string(&redirects).unwrap_or_default();
            let scopes = client.scopes.as_ref().map(|scopes| serde_json::to_string(scopes).unwrap_or_default());
            let sql = "INSERT INTO oauth2_clients \
                       (id, name, source, secret_hash, service_id, redirect_uris, scopes, created_at, network, relying_party) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
            let values = params![
                &client.id,
                &client.name,
                client.source.name(),
                secret.map(|secret| &**secret),
                account.map(ServiceId::as_str),
                redirects,
                scopes,
                client.created_at,
                network.as_deref(),
                serde_json::to_string(&client.identity.shown()).unwrap_or_default()
            ];
            tx.execute(sql, values).await?;
            Ok(true)
        };
        self.db.write(add).await
    }

    /// Removes a client; `false` if there is none.
    pub(super) async fn remove(&self, id: &str) -> Result<bool, Error> {
        Ok(self.db.execute("DELETE FROM oauth2_clients WHERE id = ?1", params![id]).await? > 0)
    }
}

/// Removes connected clients that a full table does not keep, the oldest first: several, because it is expensive to find them.
/// Their programs register again, and users still see and end the connections.
async fn displace_connected(tx: &Tx, idle: Timestamp) -> Result<u64, Error> {
    let sql = format!(
        "DELETE FROM oauth2_clients WHERE id IN (SELECT id FROM oauth2_clients WHERE source = ?1 AND id NOT IN ({KEPT}) \
         ORDER BY created_at, id LIMIT ?5)"
    );
    let registration = Source::Registration.name();
    tx.execute(sql, params![registration, idle, KEPT_OF_USER, KEPT_OF_NETWORK, RECLAIMED_AT_ONCE]).await
}

fn read(row: &Row) -> Result<Client, Error> {
    let corrupt = |column: &str, expected| Error::Corrupt {
        statement: "a read of oauth2_clients".to_owned(),
        column: column.to_owned(),
        found: "text",
        expected,
    };
    let source: String = row.get("source")?;
    let source = Source::parse(&source).ok_or_else(|| corrupt("source", "operator or registration"))?;
    let account: Option<String> = row.get("service_id")?;
    let account = account.map(|id| ServiceId::parse(&id)).transpose();
    let account = account.map_err(|_| corrupt("service_id", "an identifier"))?;
    let kind = match (row.get::<Option<Vec<u8>>>("secret_hash")?, account) {
        (None, None) => ClientKind::Public,
        (Some(secret), None) => ClientKind::Confidential { secret },
        (Some(secret), Some(account)) => ClientKind::Service { secret, account },
        (None, Some(_)) => return Err(corrupt("secret_hash", "a hash where there is a service account")),
    };
    let redirects: Vec<String> = serde_json::from_str(&row.get::<String>("redirect_uris")?)
        .map_err(|_| corrupt("redirect_uris", "a JSON list of URIs"))?;
    let id: String = row.get("id")?;
    // An earlier version accepted more.
    let allowed = |uri: &String| {
        let parsed = RedirectUri::parse(uri).ok();
        if parsed.is_none() {
            tracing::warn!(client = id, uri = ?uri, "a registered redirect URI is not allowed any more and is ignored");
        }
        parsed
    };
    let redirects = redirects.iter().filter_map(allowed).collect();
    let party = row.get::<Option<String>>("relying_party")?.map(|party| serde_json::from_str::<RelyingParty>(&party));
    let party = party.transpose().ok().and_then(|party| party.unwrap_or_default().check(true).ok());
    let identity = party.ok_or_else(|| corrupt("relying_party", "the metadata of a relying party"))?;
    let scopes = row.get::<Option<String>>("scopes")?.map(|scopes| serde_json::from_str::<Scopes>(&scopes));
    Ok(Client {
        id,
        name: row.get("name")?,
        kind,
        source,
        redirects,
        scopes: scopes.transpose().map_err(|_| corrupt("scopes", "a JSON list of scopes"))?,
        identity,
        created_at: row.get("created_at")?,
    })
}
