//! The effects of a proof of a mailbox on the account with that address.
//!
//! Anybody can register an address that is not theirs and wait until its owner signs in. Therefore every flow that
//! proves a mailbox (magic link, password reset, verification link, invitation, provider, change of address, undo of a
//! change) calls this module, and one pure function, [`effect`], decides: unless an interactive holder has proven the
//! mailbox before, the account is claimed. A claim removes every earlier credential: the password, sessions and JWTs,
//! second factors, single-use tokens, known devices, and the [`Credentials`](crate::Credentials) of plugins (API tokens,
//! passkeys, provider links, connected programs).
//!
//! A user store marks the address of an existing account as verified only for a [`MailboxProof`], and only this module
//! can construct one.

use gatewright_base::UserId;
use gatewright_db::Tx;
use gatewright_http::Problem;
use jiff::Timestamp;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::problem;
use crate::session::{AnySession, Client, SessionStoreError};
use crate::single_use::{Purpose, SingleUseStoreError};
use crate::users::{BoxError, EmailChanger, Sessions, User, UserStoreError, UsersWithin};

/// The proof that a mailbox is that of an account's owner. Only this crate's flows construct it, after they have removed
/// the credentials that a stranger may have added.
///
/// ```compile_fail,E0451
/// use gatewright_auth::{EmailAddress, users::MailboxProof};
/// # fn proof(user: gatewright_base::UserId, email: EmailAddress) -> MailboxProof {
/// MailboxProof { user, email }
/// # }
/// ```
#[derive(Debug)]
pub struct MailboxProof {
    user: UserId,
    email: EmailAddress,
}

/// How a mailbox was proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    MagicLink,
    EmailCode,
    PasswordReset,
    EmailVerification,
    /// A provider reports the address as verified.
    #[cfg_attr(not(feature = "oauth"), expect(dead_code, reason = "only providers say so"))]
    Provider,
    /// An invitation that was mailed to it.
    Invitation,
    /// The link that undoes a change of address, mailed to the former address.
    EmailChangeUndone,
    /// No proof: an operator sets the password of an account whose mailbox is not proven.
    Operator,
}

/// The kind of the prover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A person with access to the mail, or a provider's verified address, and no other proof.
    Mailbox,
    /// A person with access to the mail and, in the same browser, a session of the account.
    MailboxAndSession,
    /// A person with access to the mail of a former address, which was proven before another person may have changed it.
    FormerMailbox {
        /// The moment since which that person may have added credentials.
        since: Timestamp,
    },
}

/// The effect of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: the mailbox was proven before.
    Nothing,
    /// Records the mailbox as proven. The holder has both the mailbox and the account, so the account keeps its
    /// credentials.
    Record,
    /// Removes every earlier credential, and records the mailbox as proven.
    Claim,
    /// Removes the credentials that were added at or after this moment, and the password, and records the mailbox as
    /// proven.
    Recover(Timestamp),
}

/// A proof that has taken effect.
#[derive(Debug)]
pub(crate) struct Proven {
    /// The user after the proof.
    pub(crate) user: User,
    /// A moment at or before which `user` was loaded, for a session that follows.
    pub(crate) at: Timestamp,
    pub(crate) effect: Effect,
    dropped: Vec<&'static str>,
}

/// Why a proof has taken no effect. The mailbox counts as not proven, and the next proof starts again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProveError {
    /// The account was deleted, or has another address now.
    #[error("the account is gone or has another address")]
    Gone,
    /// An operator has disabled the account.
    #[error("the account is disabled")]
    Disabled,
    #[error(transparent)]
    Users(UserStoreError),
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error("earlier credentials could not be dropped: {0}")]
    Credentials(#[source] BoxError),
}

/// Decides the effect of a proof. `proven` says whether an interactive holder has proven the mailbox before.
pub(crate) fn effect(proven: bool, holder: Holder) -> Effect {
    match (proven, holder) {
        (true, Holder::Mailbox | Holder::MailboxAndSession) => Effect::Nothing,
        (false, Holder::MailboxAndSession) => Effect::Record,
        (false, Holder::Mailbox) => Effect::Claim,
        (true | false, Holder::FormerMailbox { since }) => Effect::Recover(since),
    }
}

impl Holder {
    /// The kind of a prover who redeems a link for `user` in a browser with this session. A session with a pending
    /// second factor does not count. A browser in which the account's password was given counts like one with a session
    /// (`witnessed`).
    pub(crate) fn of(session: Option<&AnySession>, witnessed: bool, user: &UserId) -> Self {
        match session {
            Some(AnySession::Full(session)) if session.user().id == *user => Self::MailboxAndSession,
            Some(AnySession::Full(_) | AnySession::Pending(_)) | None if witnessed => Self::MailboxAndSession,
            Some(AnySession::Full(_) | AnySession::Pending(_)) | None => Self::Mailbox,
        }
    }
}

/// Has the proof of `user`'s mailbox take effect. `at` is a moment before `user` was loaded.
pub(crate) async fn prove(
    core: &Core,
    user: User,
    at: Timestamp,
    holder: Holder,
    method: Method,
) -> Result<Proven, ProveError> {
    // An account that an operator has disabled gets its address back too, and stays disabled.
    if user.disabled && method != Method::EmailChangeUndone {
        return Err(ProveError::Disabled);
    }
    let effect = effect(user.email_verified, holder);
    let dropped = match effect {
        Effect::Nothing => return Ok(Proven { user, at, effect, dropped: Vec::new() }),
        Effect::Record => Vec::new(),
        Effect::Claim => revoke(core, &user, Timestamp::MIN, method).await?,
        Effect::Recover(since) => revoke(core, &user, since, method).await?,
    };
    record(core, &user).await?;
    let at = core.ambient.now();
    let user = core.users.store.find_by_id(&user.id).await?;
    Ok(Proven { user, at, effect, dropped })
}

/// Records the mailbox of an account as proven that this request has just created for the person who proved it: there is no
/// earlier credential.
pub(crate) async fn record_of_new(core: &Core, created: &User) -> Result<(), UserStoreError> {
    record(core, created).await
}

/// Gives the account of `user` the address `to`. Its mailbox is proven by a link, and the account's holder has confirmed
/// the change, so the account keeps its credentials.
pub(crate) async fn change(emails: &dyn EmailChanger, user: &User, to: &EmailAddress) -> Result<(), UserStoreError> {
    emails.change_email(&user.email, &MailboxProof { user: user.id.clone(), email: to.clone() }).await
}

/// [`change`] in a transaction of the accounts; `false` if the account is gone or has another address by now.
pub(crate) async fn change_within(
    users: &dyn UsersWithin,
    tx: &Tx,
    user: &User,
    to: &EmailAddress,
) -> Result<bool, gatewright_db::Error> {
    users.change_email(tx, &user.email, &MailboxProof { user: user.id.clone(), email: to.clone() }).await
}

impl MailboxProof {
    /// The account.
    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// The address of the mailbox.
    pub fn email(&self) -> &EmailAddress {
        &self.email
    }
}

impl Proven {
    /// Whether something of the account was dropped.
    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Audits the proof as `email.verified`.
    pub(crate) async fn audit(&self, core: &Core, client: &Client, method: Method) {
        let event = core.audit.event(AuditKind::EmailVerified).user(&self.user.id).remote(client.address());
        let event = event.with("method", method.name()).with("email", self.user.email.as_str());
        let event = match self.effect {
            Effect::Claim | Effect::Recover(_) => event.with("dropped", self.dropped.clone()),
            Effect::Nothing | Effect::Record => event,
        };
        core.audit.record(event).await;
    }

    /// The same, if the proof had an effect.
    pub(crate) async fn audit_effect(&self, core: &Core, client: &Client, method: Method) {
        if self.effect != Effect::Nothing {
            self.audit(core, client, method).await;
        }
    }
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::MagicLink => "magic_link",
            Self::EmailCode => "email_code",
            Self::PasswordReset => "password_reset",
            Self::EmailVerification => "email_verification",
            Self::Provider => "oauth",
            Self::Invitation => "invitation",
            Self::EmailChangeUndone => "email_change_undone",
            Self::Operator => "operator",
        }
    }
}

/// Removes the credentials that were added at or after `since`, and the password, sessions and known devices whatever
/// their age. Returns what was removed, in the words of the audit event. All steps can be repeated.
pub(crate) async fn revoke(
    core: &Core,
    user: &User,
    since: Timestamp,
    method: Method,
) -> Result<Vec<&'static str>, ProveError> {
    let (id, mut dropped) = (&user.id, Vec::new());
    let is_claim = since == Timestamp::MIN;
    match &core.users.password_setter {
        Some(setter) => setter.drop_password(id, core.ambient.now()).await?,
        None if user.password_set => return Err(unsupported("password setter")),
        None => {}
    }
    if user.password_set {
        dropped.push("password");
    }
    if core.sessions.remove_all(id, None).await? > 0 {
        dropped.push("sessions");
    }
    if !is_claim {
        let removed = core.mint.remove_second_factors_since(id, since).await;
        dropped.extend(removed.map_err(ProveError::Credentials)?);
    } else if core.mint.remove_second_factors(id).await.map_err(ProveError::Credentials)? {
        dropped.push("second_factor");
    }
    for kind in &core.credentials {
        let count = if is_claim { kind.drop_all(id).await } else { kind.drop_since(id, since).await };
        if count.map_err(ProveError::Credentials)? > 0 {
            dropped.push(kind.name());
        }
    }
    // A sign-in may have read the old hash, or a link, after the moment above and before it was dropped; not after this
    // one.
    if let Some(sign_out) = &core.users.sign_out {
        sign_out.refuse_until(id, core.ambient.now(), Sessions::End).await?;
    }
    if let Some(devices) = &core.devices {
        // After a claim, the next sign-in is the first of a new holder.
        let forgotten =
            if is_claim { devices.forget_account(id).await } else { devices.forget_all(id, None).await.map(|_| ()) };
        forgotten.map_err(|error| ProveError::Credentials(error.into()))?;
    }
    if remove_tokens(core, user, method).await? {
        dropped.push("single_use_tokens");
    }
    Ok(dropped)
}

/// Removes the tokens of other mails; `false` if there were none. The used token of a verification stays, so that its
/// link can be opened again. So do other verification tokens, which have no effect after the mailbox is proven.
async fn remove_tokens(core: &Core, user: &User, method: Method) -> Result<bool, ProveError> {
    let remove = async |purpose| core.single_use.remove(&user.id, &user.email, purpose).await;
    Ok(match method {
        // The token of this proof is one of them.
        Method::MagicLink | Method::EmailCode | Method::PasswordReset => remove(None).await? > 1,
        Method::Provider | Method::Invitation | Method::EmailChangeUndone | Method::Operator => remove(None).await? > 0,
        Method::EmailVerification => {
            let links = remove(Some(Purpose::MagicLink)).await?;
            let codes = remove(Some(Purpose::EmailCode)).await?;
            links + codes + remove(Some(Purpose::PasswordReset)).await? > 0
        }
    })
}

/// A store that cannot record it has the next proof claim the account again.
async fn record(core: &Core, user: &User) -> Result<(), UserStoreError> {
    match &core.users.email_verifier {
        Some(verifier) => {
            verifier.verify_email(&MailboxProof { user: user.id.clone(), email: user.email.clone() }).await
        }
        None => Ok(()),
    }
}

/// Plugins that could meet a password here check for the capability when they are built.
fn unsupported(what: &'static str) -> ProveError {
    ProveError::Users(UserStoreError::transport(format!("the user store has no {what}")))
}

impl From<UserStoreError> for ProveError {
    fn from(error: UserStoreError) -> Self {
        match error {
            UserStoreError::NotFound => Self::Gone,
            error => Self::Users(error),
        }
    }
}

impl From<ProveError> for Problem {
    fn from(error: ProveError) -> Self {
        match error {
            ProveError::Gone => problem::invalid_token(),
            ProveError::Disabled => problem::invalid_credentials(),
            error => problem::store_failed(&error),
        }
    }
}

#[cfg(test)]
mod tests;
