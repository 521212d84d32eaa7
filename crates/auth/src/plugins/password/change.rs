//! Changes the password, for a session with the current password.
//!
//! A change ends other sessions, JWTs and links for a password reset, and forgets other devices. API tokens stay valid.
//! A new session replaces the caller's, so that a copy of its cookie is invalid.

use std::sync::Arc;

use gatewright_base::{Secret, SessionId};
use gatewright_limits::Denied;
use http::HeaderMap;

use crate::accounts::AccountError;
use crate::accounts::Accounts;
use crate::audit::AuditKind;
use crate::core::Core;
use crate::devices;
use crate::password::{Check, HashError, Overloaded, Requester, WeakPassword};
use crate::screens::PasswordRule;
use crate::session::{Client, MintError, Proof, Session, SessionSecret};
use crate::session_limit::{PASSWORD_CHANGE, SessionLimit};
use crate::step_up::{self, StepUpError};
use crate::users::{User, UserStoreError};

/// The use case.
pub(crate) struct ChangePassword {
    core: Arc<Core>,
    accounts: Accounts,
    limit: SessionLimit,
}

/// Why no password was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// Too many attempts.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Wrong, or changed by a concurrent request.
    #[error("the current password is wrong")]
    WrongPassword,
    /// The account has no password: a password reset sets the first one.
    #[error("this account has no password")]
    NoPassword,
    #[error(transparent)]
    Weak(#[from] WeakPassword),
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Mint(#[from] MintError),
}

/// The reason in the audit log.
const WRONG: &str = "wrong current password at a change";

impl ChangePassword {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            // Separate from the limit of sign-ins: a person with an open browser must not lock its owner out elsewhere.
            limit: SessionLimit::new(&core, &PASSWORD_CHANGE, &core.config.limits.login_account),
            accounts: Accounts::new(core.clone()),
            core,
        }
    }

    /// Whether the user store can keep a new password.
    pub(crate) fn can_set_passwords(&self) -> bool {
        self.core.users.password_setter.is_some()
    }

    /// The requirements of a new password, for its field.
    pub(crate) fn rule(&self) -> PasswordRule {
        PasswordRule::of(&self.core.passwords)
    }

    /// Replaces the password and returns the new session that replaces the current one.
    pub(crate) async fn change(
        &self,
        session: &Session,
        current: &Secret,
        new: Secret,
        headers: &HeaderMap,
        client: &Client,
    ) -> Result<(SessionId, SessionSecret), ChangeError> {
        step_up::require(&self.core, session).await?;
        let user = session.user();
        self.limit.attempt(&self.core, session).await?;
        let new = self.core.accept_password(user, new).await??;
        let setter = self.core.users.password_setter.as_ref();
        let setter = setter.ok_or(AccountError::Unsupported("setting passwords"))?;
        let found = self.core.users.store.find_by_email(&user.email).await?;
        let old = found.password_hash.filter(|_| found.user.id == user.id).ok_or(ChangeError::NoPassword)?;
        let requester = Requester::client(client.address());
        match self.core.passwords.check(requester, current, Some(old.clone())).await? {
            Check::Right { .. } => {}
            Check::Wrong => return Err(self.wrong(user, WRONG, client).await),
            Check::Unreadable => return Err(self.wrong(user, Core::unreadable_hash(user), client).await),
        }
        let hash = self.core.passwords.hash(requester, &new).await?;
        let event = self.core.audit.event(AuditKind::PasswordResetCompleted).user(&user.id);
        let event = event.remote(client.address()).with("method", "current_password");
        let event = self.core.audit.begin(event).await.map_err(UserStoreError::from)?;
        // Replaces only the hash that was just compared: otherwise a concurrent reset could be undone by the very
        // person whom it was meant to lock out.
        setter.rehash(&user.id, &old, &hash).await?;
        if self.core.users.store.find_by_email(&user.email).await?.password_hash.as_ref() != Some(&hash) {
            event.withdraw().await;
            return Err(self.wrong(user, WRONG, client).await);
        }
        let ended = self.accounts.password_was_replaced(&user.id, Some(session.id())).await?;
        // A person with the old password may have signed in from the others.
        if let Some(known) = &self.core.devices {
            let current = devices::current(&self.core, &user.id, headers).await;
            known.forget_all(&user.id, current).await.map_err(|error| AccountError::Credentials(error.into()))?;
        }
        event.done().await;
        // The new session is valid after the refusal of just now, but not after a later one: a concurrent reset ends it.
        let user = self.core.users.store.find_by_id(&user.id).await?;
        let proof = Proof::new(User { sessions_valid_after: Some(ended), ..user }, ended);
        let (session, secret) = self.core.mint.renew(session, &proof, client.clone()).await?;
        Ok((session.id().clone(), secret))
    }

    async fn wrong(&self, user: &User, reason: &'static str, client: &Client) -> ChangeError {
        let event = self.core.audit.event(AuditKind::LoginFailed).user(&user.id).remote(client.address());
        self.core.audit.record(event.with("reason", reason)).await;
        ChangeError::WrongPassword
    }
}
