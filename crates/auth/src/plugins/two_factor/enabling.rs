//! Ends an enrollment: enables the factor, refuses earlier JWTs, and marks the session as verified. All of it or nothing.

use std::sync::Arc;

use gatewright_db::{Error, Tx};

use super::flow::TwoFactorError;
use super::{CodeHash, TotpSecret, TwoFactorStore, TwoFactorStoreError, TwoFactorsWithin};
use crate::core::Core;
use crate::open_session::OpenSession;
use crate::session::{MintError, Session, TwoFactorMarkerWithin};
use crate::users::{Sessions, UsersWithin};

/// A factor whose first code was right.
pub(super) struct Proven {
    pub(super) secret: TotpSecret,
    /// The step of the code, which is spent.
    pub(super) step: i64,
    pub(super) codes: Vec<CodeHash>,
}

/// `false` if the enrollment was replaced or ended in between.
pub(super) async fn enable(
    core: &Core,
    store: &Arc<dyn TwoFactorStore>,
    session: &Session,
    proven: Proven,
) -> Result<bool, TwoFactorError> {
    match Within::of(core, store) {
        Some(within) => within.enable(core, session, proven).await,
        None => enable_outside(core, &**store, session, &proven).await,
    }
}

/// The stores that take part in the transaction.
struct Within {
    users: Arc<dyn UsersWithin>,
    factors: Arc<dyn TwoFactorsWithin>,
    sessions: Arc<dyn TwoFactorMarkerWithin>,
}

/// Why the transaction is rolled back.
enum Failed {
    /// The session has ended.
    Gone,
    Database(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl Within {
    /// The stores, if all are in one database.
    fn of(core: &Core, store: &Arc<dyn TwoFactorStore>) -> Option<Self> {
        let (users, factors) = (core.users.within.clone()?, store.clone().within()?);
        let sessions = core.mint.marker_within()?;
        let together = users.database().is(factors.database()) && users.database().is(sessions.database());
        together.then_some(Self { users, factors, sessions })
    }

    async fn enable(self, core: &Core, session: &Session, proven: Proven) -> Result<bool, TwoFactorError> {
        let (user, id) = (session.user().id.clone(), session.id().clone());
        let (db, ambient) = (self.users.database().clone(), core.ambient.clone());
        let open = OpenSession::of(core, session, &db);
        let enable = async move |tx: &Tx| -> Result<bool, Failed> {
            if !open.holds(tx).await? {
                return Err(Failed::Gone);
            }
            if !self.factors.enable(tx, &user, &proven.secret, proven.step, &proven.codes).await? {
                return Ok(false);
            }
            self.users.refuse_tokens(tx, &user, ambient.now()).await?;
            if self.sessions.mark_verified(tx, &user, &id).await? { Ok(true) } else { Err(Failed::Gone) }
        };
        let enabled = match db.write(enable).await {
            Ok(enabled) => enabled,
            Err(Failed::Gone) => return Err(MintError::Gone.into()),
            Err(Failed::Database(error)) => return Err(TwoFactorStoreError::from(error).into()),
        };
        // A sign-in that found no factor just before the commit may have got a JWT just after the refusal.
        if enabled
            && let Some(sign_out) = &core.users.sign_out
            && let Err(error) = sign_out.refuse_until(&session.user().id, core.ambient.now(), Sessions::Keep).await
        {
            tracing::error!(%error, user = %session.user().id, "JWTs from the moment of an enrollment are valid until they expire");
        }
        Ok(enabled)
    }
}

/// The same with stores of the program's own, which share no transaction.
async fn enable_outside(
    core: &Core,
    store: &dyn TwoFactorStore,
    session: &Session,
    proven: &Proven,
) -> Result<bool, TwoFactorError> {
    let user = &session.user().id;
    if !store.enable(user, &proven.secret, proven.step, &proven.codes).await? {
        return Ok(false);
    }
    if let Err(error) = settle(core, session).await {
        // Without its end the beginning would lock its user out: the codes were never shown.
        if let Err(error) = store.remove(user).await {
            tracing::error!(%error, %user, "a failed enrollment could not be undone");
        }
        return Err(error);
    }
    Ok(true)
}

async fn settle(core: &Core, session: &Session) -> Result<(), TwoFactorError> {
    let user = &session.user().id;
    if let Some(sign_out) = &core.users.sign_out {
        sign_out.refuse_until(user, core.ambient.now(), Sessions::Keep).await?;
    } else {
        tracing::warn!(%user, "this user store cannot revoke JWTs: those of this user are valid until they expire");
    }
    Ok(core.mint.mark_verified(session).await?)
}
