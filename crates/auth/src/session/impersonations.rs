//! Sessions in which an operator acts as a user.
//!
//! They are in a table of their own. So a server of an earlier version, which would know nothing of their limits, does not
//! accept their cookies, and the user finds them in no list of their sessions. Each request reads the operator's session
//! and both accounts again: the moment in which the operator may no longer act ends the session on every server.

use std::sync::Arc;

use gatewright_base::{SessionId, UserId};
use gatewright_db::{Db, Error, Lane, RowRef, Share, Sql, Step, Tx, dialect, params};
use jiff::Timestamp;

use super::{AnySession, NewSession, SessionKey, SessionStore, SessionStoreError, StoredSession};
use crate::config::Impersonation;
use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::users::{User, UserStore, UserStoreError};

/// The name under which the table is brought up to date.
pub(crate) const COMPONENT: &str = "auth_impersonations";

/// The steps that create the table. Of one session of an operator there is at most one row.
pub(crate) const MIGRATIONS: &[Step] = &[Step {
    version: 1,
    name: "impersonations",
    sql: "CREATE TABLE auth_impersonations (
            id {text} PRIMARY KEY,
            secret_hash {bytes} NOT NULL UNIQUE,
            user_id {text} NOT NULL,
            operator_id {text} NOT NULL,
            operator_session {text} NOT NULL UNIQUE,
            started_at {time} NOT NULL,
            expires_at {time} NOT NULL
          );
          CREATE INDEX auth_impersonations_user_id ON auth_impersonations (user_id);
          CREATE INDEX auth_impersonations_operator_id ON auth_impersonations (operator_id);
          CREATE INDEX auth_impersonations_expires_at ON auth_impersonations (expires_at)",
}];

/// Which sessions are an operator's in an account of somebody else.
#[derive(Clone)]
pub(crate) struct Impersonations {
    db: Db,
    sweep: Sql,
    policy: Impersonation,
    users: Arc<dyn UserStore>,
    sessions: Arc<dyn SessionStore>,
}

/// The end of one.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) id: SessionId,
    pub(crate) user: UserId,
    pub(crate) operator: UserId,
}

/// A row.
#[derive(Clone)]
struct Stored {
    id: SessionId,
    user: UserId,
    operator: UserId,
    operator_session: SessionId,
    started_at: Timestamp,
    expires_at: Timestamp,
}

/// A store failed, so that nothing is known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    #[error(transparent)]
    Users(UserStoreError),
}

impl Impersonations {
    fn new(db: &Db, policy: Impersonation, users: Arc<dyn UserStore>, sessions: Arc<dyn SessionStore>) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "auth_impersonations", "id", "expires_at").into();
        Self { db: db.clone().lane(Lane::Identity), sweep, policy, users, sessions }
    }

    /// Those of this configuration; `None` if it does not allow them.
    pub(crate) fn of(foundation: &Foundation) -> Result<Option<Self>, AuthInitError> {
        let Some(policy) = &foundation.config.impersonation else { return Ok(None) };
        let Some(db) = &foundation.db else {
            let problem = "it needs a database".to_owned();
            return Err(AuthInitError::Setting { setting: "impersonation", problem });
        };
        let (users, sessions) = (foundation.users.store.clone(), foundation.sessions.clone());
        Ok(Some(Self::new(db, policy.clone(), users, sessions)))
    }

    /// Who may act, and in whose account.
    pub(crate) fn policy(&self) -> &Impersonation {
        &self.policy
    }

    /// Stores a session in place of the one that this session of the operator has begun before.
    pub(super) async fn create(&self, new: &NewSession, operator: &StoredSession) -> Result<(), SessionStoreError> {
        let values = params![
            new.id(),
            new.key().as_bytes().to_vec(),
            new.user_id(),
            &operator.user_id,
            &operator.id,
            new.started_at(),
            new.expires_at()
        ];
        let before = operator.id.clone();
        let db = self.db.writing_for(Share::of_user(&operator.user_id));
        let stored = db.write(async move |tx: &Tx| {
            let sql = "DELETE FROM auth_impersonations WHERE operator_session = ?1";
            tx.execute(sql, params![&before]).await?;
            let sql = "INSERT INTO auth_impersonations (id, secret_hash, user_id, operator_id, operator_session, started_at, \
                       expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
                       ON CONFLICT (operator_session) DO UPDATE SET id = excluded.id, secret_hash = excluded.secret_hash, \
                       user_id = excluded.user_id, started_at = excluded.started_at, expires_at = excluded.expires_at";
            tx.execute(sql, values.clone()).await.map(|_| ())
        });
        Ok(stored.await?)
    }

    /// The session with this key, if it has not expired and the operator may still act in the account.
    pub(super) async fn find(&self, key: &SessionKey, now: Timestamp) -> Result<Option<AnySession>, LookupError> {
        let sql = "SELECT id, user_id, operator_id, operator_session, started_at, expires_at FROM auth_impersonations \
                   WHERE secret_hash = ?1";
        let found = self.db.first(sql, params![key.as_bytes().to_vec()], read).await;
        let found = found.map_err(SessionStoreError::from)?;
        let Some(stored) = found.filter(|stored| stored.expires_at > now) else { return Ok(None) };
        let (Some(user), Some(operator)) = (self.user(&stored.user).await?, self.user(&stored.operator).await?) else {
            return Ok(None);
        };
        let Some(own) = self.sessions.find_of(&stored.operator, &stored.operator_session).await? else {
            return Ok(None);
        };
        let is_live = own.expires_at > now && operator.is_open_to(own.started_at);
        let may_act = is_live && self.policy.admits(&operator, &own) && self.policy.covers(&operator, &user);
        if !may_act || !user.is_open_to(stored.started_at) {
            return Ok(None);
        }
        let session = StoredSession {
            id: stored.id,
            user_id: stored.user,
            started_at: stored.started_at,
            last_seen_at: now,
            expires_at: stored.expires_at.min(own.expires_at),
            client: super::Client::default(),
            pending_two_factor: false,
            two_factor_verified: false,
        };
        Ok(Some(AnySession::impersonated(&session, user, stored.operator)))
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, LookupError> {
        match self.users.find_by_id(id).await {
            Ok(user) => Ok(Some(user)),
            Err(UserStoreError::NotFound) => Ok(None),
            Err(error) => Err(LookupError::Users(error)),
        }
    }

    /// Ends the session with this key.
    pub(crate) async fn take(&self, key: &SessionKey) -> Result<Option<Ended>, SessionStoreError> {
        let sql = "DELETE FROM auth_impersonations WHERE secret_hash = ?1 RETURNING id, user_id, operator_id, \
                   operator_session, started_at, expires_at";
        let each = |taken: &mut Option<Ended>, row: &RowRef<'_>| {
            let Stored { id, user, operator, .. } = read(row)?;
            *taken = Some(Ended { id, user, operator });
            Ok(())
        };
        Ok(self.db.write_fold(sql, params![key.as_bytes().to_vec()], None, each, |_| ()).await?)
    }

    /// Removes every row that names a deleted account.
    pub(crate) async fn forget(&self, user: &UserId) -> Result<(), SessionStoreError> {
        let sql = "DELETE FROM auth_impersonations WHERE user_id = ?1 OR operator_id = ?1";
        Ok(self.db.execute(sql, params![user]).await.map(|_| ())?)
    }

    /// Removes expired ones, at most `limit`.
    pub(crate) async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, SessionStoreError> {
        Ok(self.db.execute(&self.sweep, params![now, limit]).await?)
    }
}

impl Impersonation {
    /// Whether this operator may act as somebody else in this session.
    pub(crate) fn admits(&self, operator: &User, session: &StoredSession) -> bool {
        let proven = session.two_factor_verified || !self.require_two_factor;
        operator.roles.contains(&self.role) && proven && !session.pending_two_factor
    }

    /// Whether an operator may act in this account: never in their own, and never in that of another operator.
    pub(crate) fn covers(&self, operator: &User, user: &User) -> bool {
        operator.id != user.id && !user.roles.contains(&self.role)
    }
}

fn read(row: &RowRef<'_>) -> Result<Stored, Error> {
    Ok(Stored {
        id: row.get(0)?,
        user: row.get(1)?,
        operator: row.get(2)?,
        operator_session: row.get(3)?,
        started_at: row.get(4)?,
        expires_at: row.get(5)?,
    })
}

impl std::fmt::Debug for Impersonations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Impersonations").field("policy", &self.policy).finish_non_exhaustive()
    }
}
