//! Which programs are told when a session ends, in the table `oauth2_logouts`.
//!
//! A row is stored with the code of a sign-in. Whether the session has ended is looked up, and not reported by what ended it: so
//! no way to end a session can be forgotten. A delivery belongs to the server that has moved its next attempt, so that of several
//! servers one sends it, and another does if that one dies.

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
/// Deliveries that are read at once.
const PAGE: i64 = 500;
/// Sessions that one statement looks up.
const JOINED: i64 = 5_000;
/// Sessions that are looked up one by one.
const SINGLE: i64 = 100;
/// Deliveries of one client, or about one user, at a time.
pub(super) const SHARE: i64 = 4;
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
    /// A page of sessions that have not ended as far as is known, behind the row `after`, to be looked up in other stores.
    pub(super) async fn watched(&self, after: &str) -> Result<Vec<Watched>, Error> {
        let sql = "SELECT id, user_id, session_id, signed_in_at FROM oauth2_logouts \
                   WHERE ended_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2";
        readable("oauth2_logouts", &self.0.query(sql, params![after, SINGLE]).await?, watched)
    }

    /// The rows of a page whose sessions have ended, where accounts and sessions are in the same database, and the last row of
    /// the page if there are more. An account's words are those of [`User::is_open_to`](crate::users::User).
    pub(super) async fn ended_behind(
        &self,
        after: &str,
        now: Timestamp,
    ) -> Result<(Vec<String>, Option<String>), Error> {
        let sql = "SELECT l.id AS id FROM (SELECT id, user_id, session_id, signed_in_at FROM oauth2_logouts \
                   WHERE ended_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2) l \
                   LEFT JOIN sessions s ON s.id = l.session_id AND s.user_id = l.user_id \
                   LEFT JOIN users u ON u.id = l.user_id \
                   WHERE s.id IS NULL OR s.expires_at <= ?3 OR u.id IS NULL OR u.disabled_at IS NOT NULL \
                   OR u.sessions_valid_after >= l.signed_in_at";
        let rows = self.0.query(sql, params![after, JOINED, now]).await?;
        let ended = rows.iter().map(|row| row.get("id")).collect::<Result<_, _>>()?;
        let sql = "SELECT id FROM oauth2_logouts WHERE ended_at IS NULL AND id > ?1 ORDER BY id LIMIT 1 OFFSET ?2";
        let last = self.0.query_opt(sql, params![after, JOINED - 1]).await?;
        Ok((ended, last.map(|row| row.get("id")).transpose()?))
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

    /// Deliveries that are due, for this server alone: at most `most`, and those that `admits` admits. At most [`SHARE`] of one
    /// client and of one user are looked at, so that slow ones do not keep others waiting, and the operator's clients come first.
    pub(super) async fn claim(
        &self,
        now: Timestamp,
        most: usize,
        mut admits: impl FnMut(&Delivery) -> bool + Send,
    ) -> Result<Vec<Delivery>, Error> {
        let sql = "SELECT id, client_id, user_id, session_id, uri, private_networks, algorithm, ended_at, next_at, attempts \
                   FROM (SELECT l.*, ROW_NUMBER() OVER (PARTITION BY client_id ORDER BY next_at, id) AS of_client, \
                   ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY next_at, id) AS of_user \
                   FROM oauth2_logouts l WHERE next_at <= ?1) due WHERE of_client <= ?2 AND of_user <= ?2 \
                   ORDER BY private_networks DESC, next_at, id LIMIT ?3";
        let rows = self.0.query(sql, params![now, SHARE, PAGE]).await?;
        let until = now.checked_add(LEASE).unwrap_or(Timestamp::MAX);
        let read =
            |row: &Row| -> Result<(Timestamp, Delivery), Error> { Ok((row.get("next_at")?, delivery(row, until)?)) };
        let mut claimed = Vec::new();
        for (next_at, delivery) in readable("oauth2_logouts", &rows, read)? {
            if claimed.len() >= most {
                break;
            }
            if !admits(&delivery) {
                continue;
            }
            let sql = "UPDATE oauth2_logouts SET next_at = ?3, attempts = attempts + 1 WHERE id = ?1 AND next_at = ?2";
            if self.0.execute(sql, params![&delivery.id, next_at, until]).await? == 1 {
                claimed.push(delivery);
            }
        }
        Ok(claimed)
    }

    /// Removes a delivery that has arrived, or is given up.
    pub(super) async fn done(&self, delivery: &Delivery) -> Result<(), Error> {
        self.0.execute("DELETE FROM oauth2_logouts WHERE id = ?1", params![&delivery.id]).await.map(|_| ())
    }

    /// Forgets a client that was removed: it is told nothing any more.
    pub(in super::super) async fn forget_client(&self, client: &str) -> Result<(), Error> {
        self.0.execute("DELETE FROM oauth2_logouts WHERE client_id = ?1", params![client]).await.map(|_| ())
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

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use gatewright_db::testing::engines;

    use super::super::super::migrations::MIGRATIONS;
    use super::*;

    fn tell(number: usize, client: &str) -> Tell {
        let at = Timestamp::UNIX_EPOCH;
        Tell {
            id: format!("{number:04}"),
            client: client.to_owned(),
            user: UserId::parse(&format!("user-of-{client}")).unwrap(),
            session: SessionId::parse(&format!("session-{number}")).unwrap(),
            at: at.checked_add(SignedDuration::from_secs(number.try_into().unwrap())).unwrap(),
            expires_at: at.checked_add(SignedDuration::from_hours(1)).unwrap(),
            uri: "https://app.example.com/logout".parse().unwrap(),
            private_networks: false,
            algorithm: JwtAlgorithm::Es256,
        }
    }

    async fn stored(db: &Db, tell: Tell) {
        db.write(async move |tx: &Tx| tell.store(tx).await).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_twenty_servers_one_tells_a_program_and_another_does_if_that_one_dies() {
        for engine in engines().await {
            gatewright_db::migrate(&engine.db, "authorization_server", MIGRATIONS).await.unwrap();
            let (logouts, at) = (Logouts(engine.db.clone()), Timestamp::UNIX_EPOCH);
            let later = |seconds| at.checked_add(SignedDuration::from_secs(seconds)).unwrap();
            let claim = |seconds| {
                let logouts = logouts.clone();
                async move { logouts.claim(later(seconds), 9, |_| true).await }
            };
            for _ in 0..2 {
                stored(&engine.db, tell(1, "app")).await;
            }
            assert!(claim(1).await.unwrap().is_empty(), "the session has not ended");
            logouts.ended("0001", later(1)).await.unwrap();
            let claimed = join_all((0..20).map(|_| claim(1))).await;
            let claimed: Vec<Delivery> = claimed.into_iter().flat_map(Result::unwrap).collect();
            assert_eq!(claimed.len(), 1, "{}", engine.name);
            assert!(claim(29).await.unwrap().is_empty(), "it belongs to the first one");
            let again = claim(31).await.unwrap();
            assert_eq!((again.len(), again[0].attempts), (1, 1), "{}", engine.name);
            // The first one comes back, and settles nothing any more.
            logouts.retry(&claimed[0], later(32)).await.unwrap();
            assert!(claim(40).await.unwrap().is_empty(), "{}", engine.name);
            logouts.retry(&again[0], later(33)).await.unwrap();
            let last = claim(33).await.unwrap();
            logouts.done(&last[0]).await.unwrap();
            assert!(claim(10_000).await.unwrap().is_empty(), "{}", engine.name);
            // A session that has expired is not told.
            stored(&engine.db, tell(2, "app")).await;
            logouts.ended("0002", later(3_600)).await.unwrap();
            assert!(logouts.watched("").await.unwrap().is_empty(), "{}", engine.name);
        }
    }

    /// The attack: a client whose address never answers, with many sessions.
    #[tokio::test]
    async fn one_client_and_one_user_have_a_share() {
        for engine in engines().await {
            gatewright_db::migrate(&engine.db, "authorization_server", MIGRATIONS).await.unwrap();
            let (logouts, now) = (Logouts(engine.db.clone()), Timestamp::UNIX_EPOCH);
            for number in 0..50 {
                stored(&engine.db, tell(number, "slow")).await;
            }
            stored(&engine.db, tell(900, "app")).await;
            for watched in logouts.watched("").await.unwrap() {
                logouts.ended(&watched.id, now).await.unwrap();
            }
            let claimed = logouts.claim(now, 64, |_| true).await.unwrap();
            let of = |client: &str| claimed.iter().filter(|delivery| delivery.client == client).count();
            assert_eq!((of("slow"), of("app")), (4, 1), "{}", engine.name);
            // Neither does one user with many clients.
            for number in 0..50 {
                let tell = Tell { client: format!("client-{number}"), ..tell(2_000 + number, "many") };
                let id = tell.id.clone();
                stored(&engine.db, tell).await;
                logouts.ended(&id, now).await.unwrap();
            }
            let claimed = logouts.claim(now, 64, |_| true).await.unwrap();
            let of_many = claimed.iter().filter(|delivery| delivery.user.as_str() == "user-of-many").count();
            assert_eq!(of_many, 4, "{}", engine.name);
            for number in 1_000..1_500 {
                stored(&engine.db, tell(number, "slow")).await;
            }
            let rows = engine.db.query("SELECT id FROM oauth2_logouts", params![]).await.unwrap();
            assert_eq!(rows.len(), usize::try_from(MOST_OF_USER).unwrap() + 51, "{}", engine.name);
        }
    }
}
