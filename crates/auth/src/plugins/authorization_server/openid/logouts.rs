//! Which programs are told when a session ends, in the table `oauth2_logouts`.
//!
//! A row is stored with the code of a sign-in. Whether the session has ended is looked up, and not reported by what ended it: so
//! no way to end a session can be forgotten. A delivery belongs to the server that has moved its next attempt, so that of several
//! servers one sends it, and another does if that one dies.

use std::collections::HashMap;

use gatewright_base::{Ambient, SessionId, UserId};
use gatewright_db::{Db, Error, Row, Tx, params, readable};
use jiff::{SignedDuration, Timestamp};
use url::Url;

use super::super::client::{Client, Source};
use crate::jwt::JwtAlgorithm;
use crate::session::Session;

/// A program to tell about the end of a session.
#[derive(Debug, Clone)]
pub(in super::super) struct Tell {
    id: String,
    client: String,
    user: UserId,
    session: SessionId,
    /// When the user signed in.
    at: Timestamp,
    expires_at: Timestamp,
    uri: Url,
    private_networks: bool,
    algorithm: JwtAlgorithm,
}

/// A session that may have ended.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) id: String,
    pub(super) user: UserId,
    pub(super) session: SessionId,
    pub(super) at: Timestamp,
}

/// An attempt to tell a program, which belongs to this server until its lease ends.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) client: String,
    pub(super) user: UserId,
    pub(super) session: SessionId,
    pub(super) uri: Url,
    /// Whether the address may be one that is not public: that of the operator's own program.
    pub(super) private_networks: bool,
    pub(super) algorithm: JwtAlgorithm,
    pub(super) ended_at: Timestamp,
    /// The attempts before this one.
    pub(super) attempts: i64,
    leased_until: Timestamp,
}

#[derive(Debug, Clone)]
pub(in super::super) struct Logouts(pub(in super::super) Db);

/// Rows of one user. The oldest sign-ins are not told.
const MOST_OF_USER: i64 = 500;
/// Sessions that are looked up at once.
const PAGE: i64 = 500;
/// Deliveries that begin at once.
const BATCH: i64 = 16;
/// How long an attempt belongs to a server: longer than it takes.
const LEASE: SignedDuration = SignedDuration::from_secs(30);

impl Tell {
    /// `None`: the client has no back channel.
    pub(in super::super) fn of(session: &Session, client: &Client, ambient: &Ambient) -> Option<Self> {
        Some(Self {
            id: ambient.uuid().to_string(),
            client: client.id.clone(),
            user: session.user().id.clone(),
            session: session.id().clone(),
            at: session.started_at(),
            expires_at: session.expires_at(),
            uri: client.identity.back_channel.clone()?,
            private_networks: client.source == Source::Operator,
            algorithm: client.identity.algorithm,
        })
    }

    /// Stores it, once for a client and a session.
    pub(in super::super) async fn store(&self, tx: &Tx) -> Result<(), Error> {
        let sql = "INSERT INTO oauth2_logouts (id, client_id, user_id, session_id, signed_in_at, expires_at, uri, \
                   private_networks, algorithm, attempts) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0) \
                   ON CONFLICT (client_id, session_id) DO NOTHING";
        let values = params![
            &self.id,
            &self.client,
            &self.user,
            &self.session,
            self.at,
            self.expires_at,
            self.uri.as_str(),
            self.private_networks,
            self.algorithm.as_str()
        ];
        tx.execute(sql, values).await?;
        let sql = "DELETE FROM oauth2_logouts WHERE id IN (SELECT id FROM oauth2_logouts WHERE user_id = ?1 \
                   ORDER BY signed_in_at DESC, id DESC LIMIT 1000 OFFSET ?2)";
        tx.execute(sql, params![&self.user, MOST_OF_USER]).await.map(|_| ())
    }
}

impl Logouts {
    /// A page of sessions that have not ended as far as is known, behind the row `after`.
    pub(super) async fn watched(&self, after: &str) -> Result<Vec<Watched>, Error> {
        let sql = "SELECT id, user_id, session_id, signed_in_at FROM oauth2_logouts \
                   WHERE ended_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2";
        readable("oauth2_logouts", &self.0.query(sql, params![after, PAGE]).await?, watched)
    }

    /// Notes that a session has ended. One that expired is not told: programs know its end.
    pub(super) async fn ended(&self, id: &str, now: Timestamp) -> Result<(), Error> {
        let sql = "DELETE FROM oauth2_logouts WHERE id = ?1 AND ended_at IS NULL AND expires_at <= ?2";
        if self.0.execute(sql, params![id, now]).await? == 0 {
            let sql = "UPDATE oauth2_logouts SET ended_at = ?2, next_at = ?2 WHERE id = ?1 AND ended_at IS NULL";
            self.0.execute(sql, params![id, now]).await?;
        }
        Ok(())
    }

    /// Deliveries that are due, for this server alone. At most `of_client` of one client, so that a slow one does not keep
    /// others waiting.
    pub(super) async fn claim(&self, now: Timestamp, of_client: usize) -> Result<Vec<Delivery>, Error> {
        let sql = "SELECT id, client_id, user_id, session_id, uri, private_networks, algorithm, ended_at, next_at, attempts \
                   FROM oauth2_logouts WHERE next_at <= ?1 ORDER BY next_at LIMIT ?2";
        let rows = self.0.query(sql, params![now, BATCH * 8]).await?;
        let until = now.checked_add(LEASE).unwrap_or(Timestamp::MAX);
        let read =
            |row: &Row| -> Result<(Timestamp, Delivery), Error> { Ok((row.get("next_at")?, delivery(row, until)?)) };
        let (mut claimed, mut counts) = (Vec::new(), HashMap::<String, usize>::new());
        for (next_at, delivery) in readable("oauth2_logouts", &rows, read)? {
            let count = counts.entry(delivery.client.clone()).or_default();
            if *count >= of_client || claimed.len() >= usize::try_from(BATCH).unwrap_or_default() {
                continue;
            }
            let sql = "UPDATE oauth2_logouts SET next_at = ?3, attempts = attempts + 1 WHERE id = ?1 AND next_at = ?2";
            if self.0.execute(sql, params![&delivery.id, next_at, until]).await? == 1 {
                *count += 1;
                claimed.push(delivery);
            }
        }
        Ok(claimed)
    }

    /// Removes a delivery that has arrived, or is given up.
    pub(super) async fn done(&self, delivery: &Delivery) -> Result<(), Error> {
        self.0.execute("DELETE FROM oauth2_logouts WHERE id = ?1", params![&delivery.id]).await.map(|_| ())
    }

    /// Moves the next attempt, if it still belongs to this server.
    pub(super) async fn retry(&self, delivery: &Delivery, at: Timestamp) -> Result<(), Error> {
        let sql = "UPDATE oauth2_logouts SET next_at = ?3 WHERE id = ?1 AND next_at = ?2";
        self.0.execute(sql, params![&delivery.id, delivery.leased_until, at]).await.map(|_| ())
    }
}

fn corrupt(column: &str) -> Error {
    let statement = "a read of oauth2_logouts".to_owned();
    Error::Corrupt { statement, column: column.to_owned(), found: "text", expected: "what the server has stored" }
}

fn watched(row: &Row) -> Result<Watched, Error> {
    Ok(Watched {
        id: row.get("id")?,
        user: row.get("user_id")?,
        session: row.get("session_id")?,
        at: row.get("signed_in_at")?,
    })
}

fn delivery(row: &Row, leased_until: Timestamp) -> Result<Delivery, Error> {
    Ok(Delivery {
        id: row.get("id")?,
        client: row.get("client_id")?,
        user: row.get("user_id")?,
        session: row.get("session_id")?,
        uri: Url::parse(&row.get::<String>("uri")?).map_err(|_| corrupt("uri"))?,
        private_networks: row.get("private_networks")?,
        algorithm: row.get::<String>("algorithm")?.parse().map_err(|_| corrupt("algorithm"))?,
        ended_at: row.get("ended_at")?,
        attempts: row.get("attempts")?,
        leased_until,
    })
}
