use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Ambient, SessionId, UserId};
use gatewright_db::{Db, Error, Lane, RowRef, Share, Sql, Step, Tx, Value, dialect, params, unless_unreadable};
use jiff::Timestamp;

use super::store::Standing;
use super::{
    Client, MAX_PER_USER, NewSession, PendingMarker, SessionKey, SessionStore, SessionStoreError, StoredSession,
    TwoFactorMarker, TwoFactorMarkerWithin,
};
use crate::account_events::AccountEvents;
use crate::users::{User, read_user, user_columns};

/// Sessions in the table `sessions` of a SQLite or Postgres database. It has every capability.
#[derive(Debug, Clone)]
pub struct SqlSessionStore {
    db: Db,
    ambient: Ambient,
    sweep: Sql,
    events: AccountEvents,
}

/// The steps that create the table. There is no foreign key: users may be in a program's own store.
pub(crate) const MIGRATIONS: &[Step] = &[Step {
    version: 1,
    name: "sessions",
    sql: "CREATE TABLE sessions (
            id {text} PRIMARY KEY,
            secret_hash {bytes} NOT NULL UNIQUE,
            user_id {text} NOT NULL,
            started_at {time} NOT NULL,
            last_seen_at {time} NOT NULL,
            expires_at {time} NOT NULL,
            address {text},
            user_agent {text},
            pending_two_factor {bool} NOT NULL,
            two_factor_verified {bool} NOT NULL
          );
          CREATE INDEX sessions_user_id ON sessions (user_id);
          CREATE INDEX sessions_expires_at ON sessions (expires_at)",
}];

/// The columns that [`read_live`] reads.
macro_rules! live_columns {
    () => {
        "sessions.id AS session_id, sessions.user_id AS session_user, sessions.started_at, sessions.last_seen_at, \
         sessions.expires_at, sessions.pending_two_factor, sessions.two_factor_verified"
    };
}

/// The number of rows.
const LIVE_COLUMNS: usize = 7;

/// The columns that [`read`] reads.
macro_rules! session_columns {
    () => {
        concat!(live_columns!(), ", sessions.address, sessions.user_agent")
    };
}

/// Expired sessions that each new one removes. More than one, so that the table shrinks to the live ones.
const RECLAIMED_AT_ONCE: i64 = 32;

/// Removes all sessions of the user `?1` that are pending or not (`?2`), except the [`MOST`](super::MOST_PER_USER)
/// latest used ones and the new one `?3`. Pending ones are counted separately: a person who knows the password but lacks
/// the second factor must not displace the owner's sessions.
const BEYOND_THE_MOST: &str = "DELETE FROM sessions WHERE user_id = ?1 AND pending_two_factor = ?2 AND id <> ?3 AND id IN \
     (SELECT id FROM sessions WHERE user_id = ?1 AND pending_two_factor = ?2 \
      ORDER BY last_seen_at DESC, id DESC LIMIT 1000 OFFSET ?4)";

impl SqlSessionStore {
    /// A store over `db`. [`Auth`](crate::Auth) creates its tables.
    pub fn new(db: Db, ambient: Ambient) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "sessions", "id", "expires_at").into();
        Self { db: db.lane(Lane::Identity), ambient, sweep, events: AccountEvents::default() }
    }

    /// Tells who signs in. Users are in the same database.
    pub(crate) fn telling(self, events: AccountEvents) -> Self {
        Self { events, ..self }
    }

    /// The session with this key and its live user, in one indexed read: the cost of each request with a cookie. Only
    /// if users are in the same database. The client of the session is left out: it is only needed for listings.
    pub(super) async fn find_with_user(
        &self,
        key: &SessionKey,
    ) -> Result<Option<(StoredSession, User)>, SessionStoreError> {
        let sql = concat!(
            "SELECT ",
            live_columns!(),
            ", ",
            user_columns!(),
            " FROM sessions JOIN users ON users.id = sessions.user_id WHERE sessions.secret_hash = ?1"
        );
        let read = |row: &RowRef<'_>| Ok((read_live(row)?, read_user(row, LIVE_COLUMNS)?));
        Ok(self.db.first(sql, params![key.as_bytes().to_vec()], read).await?)
    }

    /// Stores a new session and removes some expired ones. With `old`, only if that session was stored, pending or not.
    async fn insert(
        &self,
        new: &NewSession,
        standing: Standing,
        old: Option<(&SessionId, bool)>,
    ) -> Result<bool, Error> {
        let values = insert_values(new, standing);
        let old = old.map(|(id, pending)| (id.clone(), pending));
        let (now, sweep) = (self.ambient.now(), self.sweep.clone());
        let (user, id) = (new.user_id().clone(), new.id().clone());
        // A session that takes the place of one that was complete is no sign-in.
        let is_sign_in = !standing.is_pending() && old.as_ref().is_none_or(|(_, pending)| *pending);
        let events = if is_sign_in { self.events.clone() } else { AccountEvents::default() };
        self.db
            .write(async move |tx: &Tx| {
                events.lock(tx, &user).await?;
                if let Some((old, pending)) = &old {
                    let sql = "DELETE FROM sessions WHERE id = ?1 AND pending_two_factor = ?2";
                    if tx.execute(sql, params![old, *pending]).await? == 0 {
                        return Ok(false);
                    }
                }
                tx.execute(&sweep, params![now, RECLAIMED_AT_ONCE]).await?;
                let sql = "INSERT INTO sessions (id, secret_hash, user_id, started_at, last_seen_at, expires_at, address, \
                           user_agent, pending_two_factor, two_factor_verified) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9)";
                tx.execute(sql, values.clone()).await?;
                tx.execute(BEYOND_THE_MOST, params![&user, standing.is_pending(), &id, MAX_PER_USER]).await?;
                events.signed_in(tx, &user).await?;
                Ok(true)
            })
            .await
    }
}

#[async_trait]
impl SessionStore for SqlSessionStore {
    async fn create(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        Ok(self.insert(session, Standing::Full, None).await.map(|_| ())?)
    }

    async fn find(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        let sql = concat!("SELECT ", session_columns!(), " FROM sessions WHERE sessions.secret_hash = ?1");
        Ok(self.db.first(sql, params![key.as_bytes().to_vec()], read).await?)
    }

    async fn take(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        let sql = concat!("DELETE FROM sessions WHERE secret_hash = ?1 RETURNING ", session_columns!());
        let each = |taken: &mut Option<StoredSession>, row: &RowRef<'_>| {
            *taken = Some(read(row)?);
            Ok(())
        };
        Ok(self.db.write_fold(sql, params![key.as_bytes().to_vec()], None, each, |_| ()).await?)
    }

    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), SessionStoreError> {
        let sql = "UPDATE sessions SET last_seen_at = ?2 WHERE id = ?1 AND last_seen_at < ?2";
        Ok(self.db.execute(sql, params![id, at]).await.map(|_| ())?)
    }

    async fn list(&self, user: &UserId) -> Result<Vec<StoredSession>, SessionStoreError> {
        let sql = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE user_id = ?1 ORDER BY last_seen_at DESC, id DESC"
        );
        let each = |all: &mut Vec<StoredSession>, row: &RowRef<'_>| {
            let id = row.get::<String>(0).unwrap_or_default();
            all.extend(unless_unreadable(read(row).map_err(|error| error.of_record("sessions", &id)))?);
            Ok(())
        };
        Ok(self.db.listing_for(Share::of_user(user)).fold(sql, params![user], Vec::new(), each).await?)
    }

    async fn find_of(&self, user: &UserId, id: &SessionId) -> Result<Option<StoredSession>, SessionStoreError> {
        let sql = concat!("SELECT ", session_columns!(), " FROM sessions WHERE id = ?1 AND user_id = ?2");
        Ok(self.db.first(sql, params![id, user], read).await?)
    }

    async fn remove(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError> {
        let sql = "DELETE FROM sessions WHERE user_id = ?1 AND id = ?2";
        Ok(self.db.execute(sql, params![user, id]).await? > 0)
    }

    async fn replace(
        &self,
        old: &SessionId,
        new: &NewSession,
        verified: bool,
    ) -> Result<Option<bool>, SessionStoreError> {
        let standing = if verified { Standing::Verified } else { Standing::Full };
        Ok(Some(self.insert(new, standing, Some((old, false))).await?))
    }

    async fn remove_all(&self, user: &UserId, keep: Option<&SessionId>) -> Result<u64, SessionStoreError> {
        let removed = match keep {
            Some(keep) => {
                let sql = "DELETE FROM sessions WHERE user_id = ?1 AND id <> ?2";
                self.db.execute(sql, params![user, keep]).await
            }
            None => self.db.execute("DELETE FROM sessions WHERE user_id = ?1", params![user]).await,
        };
        Ok(removed?)
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, SessionStoreError> {
        Ok(self.db.execute(&self.sweep, params![now, limit]).await?)
    }

    fn pending_marker(self: Arc<Self>) -> Option<Arc<dyn PendingMarker>> {
        Some(self)
    }
    fn two_factor_marker(self: Arc<Self>) -> Option<Arc<dyn TwoFactorMarker>> {
        Some(self)
    }
}

#[async_trait]
impl PendingMarker for SqlSessionStore {
    async fn create_pending(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        Ok(self.insert(session, Standing::Pending, None).await.map(|_| ())?)
    }
}

#[async_trait]
impl TwoFactorMarker for SqlSessionStore {
    async fn complete(&self, old: &SessionId, new: &NewSession) -> Result<bool, SessionStoreError> {
        Ok(self.insert(new, Standing::Verified, Some((old, true))).await?)
    }

    async fn mark_verified(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError> {
        let (within, user, id) = (self.clone(), user.clone(), id.clone());
        let mark = async move |tx: &Tx| TwoFactorMarkerWithin::mark_verified(&within, tx, &user, &id).await;
        Ok(self.db.write(mark).await?)
    }

    fn within(self: Arc<Self>) -> Option<Arc<dyn TwoFactorMarkerWithin>> {
        Some(self)
    }
}

#[async_trait]
impl TwoFactorMarkerWithin for SqlSessionStore {
    fn database(&self) -> &Db {
        &self.db
    }

    async fn mark_verified(&self, tx: &Tx, user: &UserId, id: &SessionId) -> Result<bool, Error> {
        let sql = "UPDATE sessions SET two_factor_verified = ?3 WHERE user_id = ?1 AND id <> ?2";
        tx.execute(sql, params![user, id, false]).await?;
        let sql = "UPDATE sessions SET two_factor_verified = ?3 \
                   WHERE user_id = ?1 AND id = ?2 AND pending_two_factor = ?4";
        Ok(tx.execute(sql, params![user, id, true, false]).await? > 0)
    }
}

fn insert_values(new: &NewSession, standing: Standing) -> Vec<Value> {
    params![
        new.id(),
        new.key().as_bytes().to_vec(),
        new.user_id(),
        new.started_at(),
        new.expires_at(),
        new.client().address().map(|address| address.to_string()),
        new.client().user_agent().map(str::to_owned),
        standing.is_pending(),
        standing.is_verified()
    ]
}

fn read(row: &RowRef<'_>) -> Result<StoredSession, Error> {
    let address = row.get::<Option<String>>(LIVE_COLUMNS)?;
    let user_agent = row.get::<Option<String>>(LIVE_COLUMNS + 1)?;
    let client = Client::new(address.and_then(|text| text.parse().ok()), user_agent.as_deref());
    Ok(StoredSession { client, ..read_live(row)? })
}

fn read_live(row: &RowRef<'_>) -> Result<StoredSession, Error> {
    Ok(StoredSession {
        id: row.get(0)?,
        user_id: row.get(1)?,
        started_at: row.get(2)?,
        last_seen_at: row.get(3)?,
        expires_at: row.get(4)?,
        client: Client::default(),
        pending_two_factor: row.get(5)?,
        two_factor_verified: row.get(6)?,
    })
}
