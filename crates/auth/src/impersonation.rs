//! Operators who act as users.
//!
//! `session/impersonations.rs` stores these sessions and decides at each use whether the operator may still act. This module
//! begins them. `restricted.rs` lists what they may do.

use std::time::Duration;

use gatewright_base::{SessionId, UserId};
use http::HeaderValue;
use jiff::Timestamp;

use crate::accounts::{AccountError, Accounts};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::session::impersonations::Ended;
use crate::session::{Client, Session, SessionCookie};

/// The longest session in which an operator acts as a user.
pub(crate) const LONGEST: Duration = Duration::from_hours(1);
/// The longest reason, in characters.
const LONGEST_REASON: usize = 500;

/// Why an operator may not act as a user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImpersonationError {
    /// The configuration does not allow it to anybody.
    #[error("impersonation is off: set auth.impersonation")]
    Off,
    /// The session is none of an operator who may act as a user.
    #[error("this session may not act as another account")]
    NotAnOperator,
    /// The account is the operator's own, or that of another operator.
    #[error("the account of an operator cannot be impersonated")]
    AnOperator,
    /// The account is disabled or being deleted.
    #[error("the account is disabled")]
    Disabled,
    /// The reason is empty, too long, or has control characters.
    #[error("a reason of 1 to 500 characters, without control characters, is required")]
    Reason,
    /// A store failed, or there is no such account.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The audit log cannot be written, so nothing was done.
    #[error("the audit log cannot be written")]
    Unaudited,
}

/// A session in which an operator acts as a user.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Impersonated {
    /// The `Set-Cookie` that gives it to the operator's browser, in place of their own session, which stays stored.
    pub cookie: HeaderValue,
    /// Its public identifier.
    pub id: SessionId,
    /// When it ends at the latest.
    pub expires_at: Timestamp,
}

impl Accounts {
    /// Begins a session in which the operator of a session acts as a user, for at most an hour. It ends with the operator's
    /// session and with their role, and replaces the one that their session has begun before. The caller has checked that the
    /// operator has just signed in.
    pub async fn impersonate(
        &self,
        operator: &Session,
        user: &UserId,
        reason: &str,
        client: &Client,
    ) -> Result<Impersonated, ImpersonationError> {
        let core = self.core();
        let impersonations = core.impersonations.as_ref().ok_or(ImpersonationError::Off)?;
        let reason = reason.trim();
        if reason.is_empty() || reason.chars().count() > LONGEST_REASON || reason.chars().any(char::is_control) {
            return Err(ImpersonationError::Reason);
        }
        let own = core.sessions.find_of(&operator.user().id, operator.id()).await.map_err(AccountError::from)?;
        // Of an impersonated session there is none: nobody acts as a third account.
        let own = own.filter(|own| impersonations.policy().admits(operator.user(), own));
        let own = own.ok_or(ImpersonationError::NotAnOperator)?;
        let account = core.users.store.find_by_id(user).await.map_err(AccountError::from)?;
        if !impersonations.policy().covers(operator.user(), &account) {
            return Err(ImpersonationError::AnOperator);
        }
        if account.disabled {
            return Err(ImpersonationError::Disabled);
        }
        let event = core.audit.event(AuditKind::ImpersonationStarted).user(user).remote(client.address());
        let event = event.with("operator", operator.user().id.as_str()).with("reason", reason);
        let event = event.with("operator_session", operator.id().as_str());
        let begun = core.audit.begin(event).await.map_err(|error| {
            tracing::error!(%error, "an impersonation was refused");
            ImpersonationError::Unaudited
        })?;
        let made = core.mint.impersonate(&account, &own, LONGEST).await;
        match made {
            Ok(Some((new, secret))) => {
                begun.done_with(|event| event.with("session", new.id().as_str())).await;
                let ttl = new.expires_at().duration_since(new.started_at()).unsigned_abs();
                let cookie = SessionCookie::new(core.cookie.is_secure(), ttl).set(&secret);
                Ok(Impersonated { cookie, id: new.id().clone(), expires_at: new.expires_at() })
            }
            Ok(None) => {
                begun.withdraw().await;
                Err(ImpersonationError::Off)
            }
            // It is unknown whether it was stored; nobody got its secret.
            Err(error) => {
                begun.withdraw().await;
                Err(AccountError::from(error).into())
            }
        }
    }
}

/// Records that an operator signed out of an account.
pub(crate) async fn note_end(core: &Core, ended: &Ended, client: &Client) {
    let event = core.audit.event(AuditKind::ImpersonationEnded).user(&ended.user).remote(client.address());
    let event = event.with("operator", ended.operator.as_str()).with("session", ended.id.as_str());
    core.audit.record(event.with("reason", "logout")).await;
}
