//! Fresh proofs, for actions that cannot be undone or that expose everything: a change of address, a new passkey, a new
//! second factor, new backup codes, the deletion and the export of the account.
//!
//! Another person may use an open browser with a session. So these actions require the password again and, from users
//! who have one, a code of the second factor. An account without a password needs a session younger than five minutes.
//! For a second factor, its backup codes and a download of the export, such a session is enough for every account.

use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_http::Problem;
use gatewright_limits::Denied;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::open_session::is_open;
use crate::password::{Check, Overloaded, Requester};
use crate::problem::{invalid_credentials, second_factor_required, store_failed};
use crate::session::{Client, Session};
use crate::session_limit::{FRESH_PROOF, SessionLimit};
use crate::users::{BoxError, UserStoreError};

/// Asks for it.
pub(crate) struct Fresh {
    core: Arc<Core>,
    limit: SessionLimit,
}

/// The given proof. Fields of a body.
#[derive(Debug, Clone, Default, serde::Deserialize)]
pub(crate) struct Given {
    pub(crate) password: Option<Secret>,
    pub(crate) code: Option<Secret>,
}

/// The whole body of a request that takes only a proof: another field is 422.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnlyGiven {
    password: Option<Secret>,
    code: Option<Secret>,
}

/// The proof that an account has to give. The template `account/fresh.html` asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Asked {
    pub(crate) password: bool,
    pub(crate) code: bool,
}

/// Why the proof is not one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FreshError {
    /// Too many attempts.
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("is required")]
    NoPassword,
    #[error("invalid credentials")]
    WrongPassword,
    /// No password fits the stored hash. Contains the reason for the audit log; the answer is that of a wrong password.
    #[error("{0}")]
    UnreadableHash(&'static str),
    /// A code of the second factor is needed.
    #[error("two-factor verification required")]
    NoCode,
    #[error("invalid code")]
    WrongCode,
    /// There is no password, and the session is older than five minutes.
    #[error("sign in again: this needs a session younger than five minutes")]
    SessionTooOld,
    /// The session has ended since the request began, for example by a claim of the account or a new password.
    #[error("the session has ended; sign in again")]
    SessionEnded,
    /// There is a password, it is not given, and the session is older than five minutes.
    #[error("send the password, or sign in again: the session is older than five minutes")]
    NoProof,
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error("the second factor could not be looked up: {0}")]
    Factor(#[source] BoxError),
}

/// The proof that [`Fresh::require`] needs from this session's user.
pub(crate) async fn asked(core: &Core, session: &Session) -> Result<Asked, FreshError> {
    let user = session.user();
    let has_factor = core.mint.has_second_factor(&user.id).await.map_err(FreshError::Factor)?;
    Ok(Asked { password: user.password_set, code: has_factor })
}

/// The proof that [`Fresh::require_unless_young`] needs from this session's user: none in a young session.
pub(crate) async fn asked_unless_young(core: &Core, session: &Session) -> Result<Asked, FreshError> {
    if is_young(core, session) { Ok(Asked { password: false, code: false }) } else { asked(core, session).await }
}

/// Whether this session began less than five minutes ago.
pub(crate) fn is_young(core: &Core, session: &Session) -> bool {
    session.is_young(core.ambient.now())
}

/// Passes a session that began recently, with the second factor if the user has one. It is no attempt: it proves nothing that
/// could be guessed.
pub(crate) async fn check_young(core: &Core, session: &Session) -> Result<(), FreshError> {
    if !is_young(core, session) {
        return Err(FreshError::SessionTooOld);
    }
    let has_factor = core.mint.has_second_factor(&session.user().id).await.map_err(FreshError::Factor)?;
    if has_factor && !session.two_factor_verified() { Err(FreshError::NoCode) } else { Ok(()) }
}

/// Passes a session that may still act.
async fn check_open(core: &Core, session: &Session) -> Result<(), FreshError> {
    if is_open(core, session).await? { Ok(()) } else { Err(FreshError::SessionEnded) }
}

impl Fresh {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        // Separate from the limit of sign-ins: a person with an open browser must not lock its owner out elsewhere.
        Self { limit: SessionLimit::new(&core, &FRESH_PROOF, &core.config.limits.login_account), core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Passes a caller who proves to be the session's user. Every attempt counts, right or wrong. `at` names the action
    /// in the audit log.
    pub(crate) async fn require(
        &self,
        session: &Session,
        given: &Given,
        client: &Client,
        at: &'static str,
    ) -> Result<(), FreshError> {
        let checked = match self.check(session, given, client).await {
            Ok(()) => check_open(&self.core, session).await,
            Err(error) => Err(error),
        };
        if let Err(error @ (FreshError::WrongPassword | FreshError::UnreadableHash(_) | FreshError::WrongCode)) =
            &checked
        {
            let event = self.core.audit.event(AuditKind::LoginFailed).user(&session.user().id);
            let event = event.remote(client.address()).with("reason", error.to_string()).with("at", at);
            self.core.audit.record(event).await;
        }
        checked
    }

    /// Passes a session that began recently, with the second factor if the user has one: for requests that cannot contain
    /// a password.
    pub(crate) async fn require_young(&self, session: &Session) -> Result<(), FreshError> {
        self.limit.attempt(&self.core, session).await?;
        check_young(&self.core, session).await
    }

    /// Passes a session that began recently, as [`require_young`](Self::require_young), or a caller who gives a proof, as
    /// [`require`](Self::require). Only proofs count as attempts: a young session proves nothing that could be guessed.
    pub(crate) async fn require_unless_young(
        &self,
        session: &Session,
        given: &Given,
        client: &Client,
        at: &'static str,
    ) -> Result<(), FreshError> {
        match check_young(&self.core, session).await {
            Err(FreshError::SessionTooOld | FreshError::NoCode) if given.password.is_some() => {
                self.require(session, given, client, at).await
            }
            Err(FreshError::SessionTooOld) if session.user().password_set => Err(FreshError::NoProof),
            checked => checked,
        }
    }

    async fn check(&self, session: &Session, given: &Given, client: &Client) -> Result<(), FreshError> {
        let user = session.user();
        self.limit.attempt(&self.core, session).await?;
        let found = self.core.users.store.find_by_email(&user.email).await?;
        let stored = found.password_hash.filter(|_| found.user.id == user.id);
        if let Some(stored) = stored {
            let password = given.password.as_ref().ok_or(FreshError::NoPassword)?;
            let requester = Requester::client(client.address());
            match self.core.passwords.check(requester, password, Some(stored.clone())).await? {
                Check::Right { outdated: true } => self.core.renew_hash(requester, user, password, &stored).await,
                Check::Right { outdated: false } => {}
                Check::Wrong => return Err(FreshError::WrongPassword),
                Check::Unreadable => return Err(FreshError::UnreadableHash(Core::unreadable_hash(user))),
            }
        } else if !is_young(&self.core, session) {
            return Err(FreshError::SessionTooOld);
        }
        if !self.core.mint.has_second_factor(&user.id).await.map_err(FreshError::Factor)? {
            return Ok(());
        }
        let code = given.code.as_ref().filter(|code| !code.is_empty()).ok_or(FreshError::NoCode)?;
        let proven = self.core.mint.prove_second_factor(&user.id, code).await.map_err(FreshError::Factor)?;
        if proven { Ok(()) } else { Err(FreshError::WrongCode) }
    }
}

impl From<OnlyGiven> for Given {
    fn from(OnlyGiven { password, code }: OnlyGiven) -> Self {
        Self { password, code }
    }
}

impl From<FreshError> for Problem {
    fn from(error: FreshError) -> Self {
        match error {
            FreshError::Denied(denied) => denied.into(),
            FreshError::NoPassword => Self::invalid_field("password", "required", error.to_string()),
            FreshError::WrongPassword | FreshError::UnreadableHash(_) => invalid_credentials(),
            FreshError::NoCode => second_factor_required(),
            FreshError::WrongCode => Self::unauthorized("invalid code").with_code("invalid_code"),
            FreshError::SessionEnded => Self::unauthorized(error.to_string()),
            FreshError::SessionTooOld | FreshError::NoProof => {
                Self::forbidden(error.to_string()).with_code("session_too_old")
            }
            FreshError::Overloaded(error) => error.into(),
            FreshError::Users(error) => error.into(),
            FreshError::Factor(error) => store_failed(&*error),
        }
    }
}
