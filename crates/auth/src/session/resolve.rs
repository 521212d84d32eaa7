use std::sync::Arc;

use gatewright_base::Ambient;
use jiff::{SignedDuration, Timestamp};

use super::impersonations::{Impersonations, LookupError};
use super::{AnySession, SessionSecret, SessionStore, SessionStoreError, SqlSessionStore, StoredSession};
use crate::users::{User, UserStore, UserStoreError};

/// Finds the session behind a cookie, together with its live user.
pub(crate) struct Resolver {
    lookup: Lookup,
    store: Arc<dyn SessionStore>,
    impersonations: Option<Impersonations>,
    ambient: Ambient,
}

/// Where the two halves come from.
pub(crate) enum Lookup {
    /// Sessions and users are in one database: one indexed read.
    Joined(SqlSessionStore),
    /// One of the stores is the host's: one read each.
    Separate(Arc<dyn UserStore>),
}

/// A use is recorded if the last recorded one is at least this old, so that few requests cost a write.
const TOUCH_EVERY: SignedDuration = SignedDuration::from_mins(5);

/// One of the stores could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    #[error(transparent)]
    Users(UserStoreError),
}

impl From<LookupError> for ResolveError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Sessions(error) => Self::Sessions(error),
            LookupError::Users(error) => Self::Users(error),
        }
    }
}

impl Resolver {
    pub(crate) fn new(
        lookup: Lookup,
        store: Arc<dyn SessionStore>,
        impersonations: Option<Impersonations>,
        ambient: Ambient,
    ) -> Self {
        Self { lookup, store, impersonations, ambient }
    }

    /// The session with this secret; `None` if there is none, it has expired, its user is deleted or disabled, or it was
    /// begun before the user signed out everywhere.
    pub(crate) async fn resolve(&self, secret: &SessionSecret) -> Result<Option<AnySession>, ResolveError> {
        let now = self.ambient.now();
        let Some((stored, user)) = self.find(secret, now).await? else {
            let Some(impersonations) = &self.impersonations else { return Ok(None) };
            return Ok(impersonations.find(&secret.key(), now).await?);
        };
        if stored.expires_at <= now || user.disabled || !user.accepts_session_from(stored.started_at) {
            return Ok(None);
        }
        if now.duration_since(stored.last_seen_at) >= TOUCH_EVERY
            && let Err(error) = self.store.touch(&stored.id, now).await
        {
            tracing::warn!(%error, session = %stored.id, "the last use of a session could not be stored");
        }
        Ok(Some(AnySession::of_stored(&stored, user)))
    }

    async fn find(
        &self,
        secret: &SessionSecret,
        now: Timestamp,
    ) -> Result<Option<(StoredSession, User)>, ResolveError> {
        let users = match &self.lookup {
            Lookup::Joined(sql) => return Ok(sql.find_with_user(&secret.key()).await?),
            Lookup::Separate(users) => users,
        };
        let found = self.store.find(&secret.key()).await?;
        let Some(stored) = found.filter(|stored| stored.expires_at > now) else { return Ok(None) };
        match users.find_by_id(&stored.user_id).await {
            Ok(user) => Ok(Some((stored, user))),
            Err(UserStoreError::NotFound) => Ok(None),
            Err(error) => Err(ResolveError::Users(error)),
        }
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}
