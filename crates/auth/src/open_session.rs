//! Whether the session of a request may still act. A request may have waited, for example for its password to be hashed, while a
//! claim of the account or a new password ended its session.

use std::sync::Arc;

use gatewright_base::UserId;
use gatewright_db::{Db, Error, Share, Tx};
use jiff::Timestamp;

use crate::foundation::Foundation;
use crate::session::Session;
use crate::users::{UserStoreError, UsersWithin};

/// The account of a session, in transactions of `db`: what outlives the session is stored only while the session may act,
/// because a claim of the account or a new password takes the same lock, and then ends what it finds.
#[derive(Clone)]
pub(crate) struct OpenSession {
    users: Option<Arc<dyn UsersWithin>>,
    user: UserId,
    began: Timestamp,
}

impl OpenSession {
    pub(crate) fn of(foundation: &Foundation, session: &Session, db: &Db) -> Self {
        let users = foundation.users.within.clone().filter(|users| users.database().is(db));
        Self { users, user: session.user().id.clone(), began: session.started_at() }
    }

    /// A session that began at that moment, of an account in this store.
    #[cfg(test)]
    pub(crate) fn from(users: Option<Arc<dyn UsersWithin>>, user: UserId, began: Timestamp) -> Self {
        Self { users, user, began }
    }

    /// Whether the accounts are in the same database. Otherwise [`is_open`] has to be asked after the commit.
    pub(crate) fn is_shared(&self) -> bool {
        self.users.is_some()
    }

    /// Whether the session may still act. What is decided after this is still true when the transaction commits.
    pub(crate) async fn holds(&self, tx: &Tx) -> Result<bool, Error> {
        let Some(users) = &self.users else { return Ok(true) };
        Ok(users.lock(tx, &self.user).await?.is_some_and(|user| user.is_open_to(self.began)))
    }
}

/// Whether the session may still act, once everything that ends it and has begun is done. Where the accounts share no transaction:
/// at this moment.
pub(crate) async fn holds_now(foundation: &Foundation, session: &Session) -> Result<bool, UserStoreError> {
    let Some(users) = &foundation.users.within else { return is_open(foundation, session).await };
    let db = users.database();
    let open = OpenSession::of(foundation, session, db);
    let db = db.writing_for(Share::of_user(&session.user().id));
    db.write(async move |tx: &Tx| open.holds(tx).await).await.map_err(UserStoreError::transport)
}

/// Whether the session may still act at this moment.
pub(crate) async fn is_open(foundation: &Foundation, session: &Session) -> Result<bool, UserStoreError> {
    match foundation.users.store.find_by_id(&session.user().id).await {
        Ok(user) => Ok(user.is_open_to(session.started_at())),
        Err(UserStoreError::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}
