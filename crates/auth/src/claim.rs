//! Claiming an account: what happens to it when somebody proves a mailbox that nobody had proven before.
//!
//! Anybody can register an address that is not theirs, and wait for its owner to come. So when the owner comes, by a
//! link that reached the mailbox, every credential from before that moment goes: the password, sessions and JWTs, second
//! factors, single-use tokens, and whatever plugins know of (API tokens, provider links), each of which is a
//! [`Credentials`].

use async_trait::async_trait;
use gatewright_base::UserId;

use crate::Core;
use crate::problem;
use crate::session::SessionStoreError;
use crate::single_use::SingleUseStoreError;
use crate::users::{BoxError, Sessions, User, UserStoreError};
use gatewright_http::Problem;

/// A kind of credential that a plugin keeps, for the moment when all of a user's must go.
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// What they are called in the audit event: `api_tokens`.
    fn name(&self) -> &'static str;

    /// Drops all of this user's, and returns how many there were.
    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError>;

    /// Whether they are a way to sign in, which ends when the password of a never-verified account is reset, too. API
    /// tokens are not: they live on through a reset.
    fn signs_in(&self) -> bool;
}

/// Why an account was not claimed. It is as good as not proven then, and the next proof begins anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// It is gone, or has another address now.
    #[error("the account is gone or has another address")]
    Gone,
    #[error(transparent)]
    Users(UserStoreError),
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error("earlier credentials could not be dropped: {0}")]
    Credentials(#[source] BoxError),
}

/// Drops every credential from before and then, as the last step, records the mailbox as proven. Returns what was
/// dropped, in the words of the audit event.
pub(crate) async fn claim(core: &Core, user: &User) -> Result<Vec<&'static str>, ClaimError> {
    let (id, mut dropped) = (&user.id, Vec::new());
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
    if core.mint.remove_second_factors(id).await.map_err(ClaimError::Credentials)? {
        dropped.push("second_factor");
    }
    dropped.extend(drop_credentials(core, id, |_| true).await?);
    // A sign-in may have read the old hash, or a link, after the moment above and before it was dropped; not after this
    // one.
    if let Some(sign_out) = &core.users.sign_out {
        sign_out.refuse_until(id, core.ambient.now(), Sessions::End).await?;
    }
    if core.single_use.remove(id, &user.email, None).await? > 1 {
        dropped.push("single_use_tokens");
    }
    // A store that cannot record it has the next proof begin anew.
    if let Some(verifier) = &core.users.email_verifier {
        verifier.verify_email(id, &user.email).await?;
    }
    Ok(dropped)
}

/// Drops those of the plugins' credentials that are `wanted`.
pub(crate) async fn drop_credentials(
    core: &Core,
    user: &UserId,
    wanted: impl Fn(&dyn Credentials) -> bool,
) -> Result<Vec<&'static str>, ClaimError> {
    let mut dropped = Vec::new();
    for kind in core.credentials.iter().filter(|kind| wanted(&***kind)) {
        if kind.drop_all(user).await.map_err(ClaimError::Credentials)? > 0 {
            dropped.push(kind.name());
        }
    }
    Ok(dropped)
}

/// Plugins that could meet a password here check for the capability when they are built.
fn unsupported(what: &'static str) -> ClaimError {
    ClaimError::Users(UserStoreError::transport(format!("the user store has no {what}")))
}

impl From<UserStoreError> for ClaimError {
    fn from(error: UserStoreError) -> Self {
        match error {
            UserStoreError::NotFound => Self::Gone,
            error => Self::Users(error),
        }
    }
}

impl From<ClaimError> for Problem {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Gone => problem::invalid_token(),
            error => problem::store_failed(&error),
        }
    }
}
