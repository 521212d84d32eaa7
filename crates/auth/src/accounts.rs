use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Roles, Secret, SessionId, UserId};
use gatewright_db::Share;
use gatewright_tenancy::TenantStoreError;
use jiff::Timestamp;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::{EmailAddress, InvalidEmail};
use crate::foundation::Foundation;
use crate::mailbox::{self, Method, ProveError};
use crate::password::{HashError, PasswordHash, PasswordOwner, Requester, WeakPassword};
use crate::session::SessionStoreError;
use crate::single_use::{Purpose, SingleUseStoreError};
use crate::users::{BoxError, ListUsers, NewPasswordlessUser, NewUser, Sessions, User, UserPage, UserStoreError};

/// Management of accounts for trusted server code: a command line, an admin tool. No route of this crate calls it.
#[derive(Debug, Clone)]
pub struct Accounts {
    core: Arc<Core>,
    foundation: Foundation,
}

/// Why an account was not managed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// The address is invalid.
    #[error(transparent)]
    Email(#[from] InvalidEmail),
    /// The password breaks a rule.
    #[error(transparent)]
    Password(#[from] WeakPassword),
    /// The password could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// There is no such user, the address is taken, or the store failed.
    #[error(transparent)]
    Users(#[from] UserStoreError),
    /// The session store failed.
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    /// The store of single-use tokens failed.
    #[error(transparent)]
    SingleUseTokens(#[from] SingleUseStoreError),
    /// A store of second factors failed.
    #[error("the second factor could not be removed: {0}")]
    SecondFactor(#[source] BoxError),
    /// API tokens or provider links could not be removed.
    #[error("cannot remove the credentials: {0}")]
    Credentials(#[source] BoxError),
    /// Memberships in tenants could not be removed.
    #[error("cannot remove the memberships in tenants: {0}")]
    Tenants(#[source] TenantStoreError),
    /// The account is the last owner of these tenants, which have other members.
    #[error("the account is the only owner of {}: make another member an owner first", .0.iter().map(gatewright_base::TenantId::as_str).collect::<Vec<_>>().join(", "))]
    LastOwner(Vec<gatewright_base::TenantId>),
    /// Nobody has proven the mailbox, and no operator created the account. See [`Accounts::resolve`].
    #[error("nobody has confirmed the address {0}: anybody may have registered this account")]
    Unverified(EmailAddress),
    /// The account is being deleted, which cannot be undone.
    #[error("the account is being deleted")]
    BeingDeleted,
    /// The account's records could not be released.
    #[error("cannot release the records of the account: {0}")]
    Records(#[source] BoxError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
    /// The audit log could not be made anonymous.
    #[error("cannot remove personal data from the audit log: {0}")]
    Audit(#[source] BoxError),
    /// Queued mails could not be removed.
    #[error("cannot remove the mails to the account: {0}")]
    Mail(#[source] BoxError),
    /// The store of attempts failed.
    #[error("the failed attempts cannot be cleared: {0}")]
    Lockouts(#[source] gatewright_limits::StoreError),
    /// The host's user store cannot list users.
    #[error("list-users unsupported: this user store has no user lister")]
    ListUsersUnsupported,
    /// Registration is closed, and there is no account with the address that could accept an invitation.
    #[error("registration is closed: only an address that has an account can be invited")]
    RegistrationClosed,
    /// The invitation is being accepted. It cannot be replaced or withdrawn until the claim ends, which takes at most
    /// this long.
    #[error("the invitation is being accepted; try again in {} s", .0.as_secs_f64().ceil())]
    InvitationClaimed(Duration),
    /// The invitations could not be read or written.
    #[error("the invitations cannot be used: {0}")]
    Invitations(#[source] BoxError),
    /// The host's user store lacks another capability.
    #[error("this user store does not support {0}")]
    Unsupported(&'static str),
}

impl From<ProveError> for AccountError {
    fn from(error: ProveError) -> Self {
        match error {
            ProveError::Gone => Self::Users(UserStoreError::NotFound),
            ProveError::Disabled => Self::Unsupported("proving a disabled account"),
            ProveError::Users(error) => error.into(),
            ProveError::Sessions(error) => error.into(),
            ProveError::Tokens(error) => error.into(),
            ProveError::Credentials(error) => Self::Credentials(error),
        }
    }
}

impl AccountError {
    pub(crate) fn invitations(error: gatewright_db::Error) -> Self {
        Self::Invitations(error.into())
    }
}

impl Accounts {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { foundation: core.foundation.clone(), core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Creates a user, with the default roles unless others are given. Without a password they can sign in only by
    /// magic link or provider. Tools of operators accept the account although its mailbox is not proven.
    pub async fn create(
        &self,
        email: &str,
        password: Option<Secret>,
        roles: Option<Roles>,
    ) -> Result<User, AccountError> {
        let tools = &self.foundation;
        let email = EmailAddress::parse(email)?;
        let roles = roles.unwrap_or_else(|| tools.config.default_roles.clone());
        let Some(password) = password else {
            let creator =
                tools.users.passwordless.as_ref().ok_or(AccountError::Unsupported("users without a password"))?;
            let user = NewPasswordlessUser { email, roles, email_verified: false };
            let user = creator.create_passwordless(user).await?;
            self.record_as_operators(&user.id).await?;
            return Ok(user);
        };
        let owner = PasswordOwner { email: Some(&email), display_name: None };
        let password = tools.passwords.accept(password, owner)?;
        let password_hash = tools.passwords.hash(Requester::SERVER, &password).await?;
        let user = tools.users.store.create(NewUser { email, password_hash, roles, profile: None }).await?;
        self.record_as_operators(&user.id).await?;
        Ok(user)
    }

    /// The user with this address.
    pub async fn find(&self, email: &str) -> Result<User, AccountError> {
        let email = EmailAddress::parse(email)?;
        Ok(self.foundation.users.store.find_by_email(&email).await?.user)
    }

    /// The user with this id.
    pub async fn find_by_id(&self, id: &UserId) -> Result<User, AccountError> {
        Ok(self.foundation.users.store.find_by_id(id).await?)
    }

    /// The users with these ids that exist, in any order.
    pub async fn find_among(&self, ids: &[UserId]) -> Result<Vec<User>, AccountError> {
        Ok(self.foundation.users.store.find_among(ids, Share::default()).await?)
    }

    /// One page of users, ordered by address, and the count of all.
    pub async fn list(&self, page: ListUsers) -> Result<UserPage, AccountError> {
        let lister = self.foundation.users.lister.as_ref().ok_or(AccountError::ListUsersUnsupported)?;
        let mut page = lister.list(page).await?;
        let allowed = self.foundation.passwords.allows_weak_hashes();
        for item in &mut page.items {
            item.unknown_hash |= item.weak_hash && !allowed;
        }
        Ok(page)
    }

    /// Replaces a user's roles, from their next request on.
    pub async fn set_roles(&self, id: &UserId, roles: &Roles) -> Result<(), AccountError> {
        Ok(self.foundation.users.store.update_roles(id, roles).await?)
    }

    /// Sets a user's password, and ends their sessions and JWTs. If a stranger may have registered the account, the
    /// operator claims it: every earlier credential is removed. The audit log has what was removed.
    pub async fn set_password(&self, id: &UserId, password: Secret) -> Result<(), AccountError> {
        if self.foundation.users.password_setter.is_none() {
            return Err(AccountError::Unsupported("setting passwords"));
        }
        let user = self.find_by_id(id).await?;
        let password = self.core.accept_password(&user, password).await??;
        let hash = self.foundation.passwords.hash(Requester::SERVER, &password).await?;
        let is_claim = self.may_be_a_strangers(&user).await?;
        let event = self.foundation.audit.event(AuditKind::PasswordResetCompleted).user(id).with("method", "operator");
        let event = self.foundation.audit.begin(event).await.map_err(UserStoreError::from)?;
        let dropped = if is_claim {
            mailbox::revoke(&self.core, &user, Timestamp::MIN, Method::Operator).await?
        } else {
            Vec::new()
        };
        self.replace_hash(id, &hash).await?;
        if is_claim {
            self.record_as_operators(id).await?;
        }
        event.done_with(|event| if is_claim { event.with("dropped", dropped) } else { event }).await;
        Ok(())
    }

    /// Ends every session and JWT of a user, and returns how many sessions there were.
    pub async fn sign_out_everywhere(&self, id: &UserId) -> Result<u64, AccountError> {
        if let Some(sign_out) = &self.foundation.users.sign_out {
            sign_out.refuse_until(id, self.foundation.ambient.now(), Sessions::End).await?;
        } else {
            tracing::warn!(user = %id, "this user store cannot revoke JWTs: those of this user are valid until they expire");
        }
        self.remove_sessions(id, None, "signed out everywhere").await
    }

    /// Removes a user's second factor and backup codes; `false` if there was none. Their sessions stay valid.
    pub async fn disable_two_factor(&self, id: &UserId) -> Result<bool, AccountError> {
        let removed = self.core.mint.remove_second_factors(id).await.map_err(AccountError::SecondFactor)?;
        if removed {
            let event = self.foundation.audit.event(AuditKind::TwoFactorDisabled).user(id);
            self.foundation.audit.record(event.with("reason", "removed by an operator")).await;
        }
        Ok(removed)
    }

    /// Stores a password, and ends what was begun with the old one, including sign-ins in progress.
    pub(crate) async fn replace_hash(&self, id: &UserId, hash: &PasswordHash) -> Result<(), AccountError> {
        let tools = &self.foundation;
        let setter = tools.users.password_setter.as_ref().ok_or(AccountError::Unsupported("setting passwords"))?;
        setter.set_password(id, hash, tools.ambient.now()).await?;
        self.password_was_replaced(id, None).await?;
        // A person with the old password may have signed in from them.
        if let Some(devices) = &self.core.devices {
            devices.forget_all(id, None).await.map_err(|error| AccountError::Credentials(error.into()))?;
        }
        Ok(())
    }

    /// Ends what was begun with the old password, up to the returned time. The session `keep` is refused like the
    /// others, and its caller must replace it.
    pub(crate) async fn password_was_replaced(
        &self,
        id: &UserId,
        keep: Option<&SessionId>,
    ) -> Result<Timestamp, AccountError> {
        let tools = &self.foundation;
        let until = tools.ambient.now();
        // A sign-in may have read the old hash after the moment above and before it was replaced; not after this one.
        if let Some(sign_out) = &tools.users.sign_out {
            sign_out.refuse_until(id, until, Sessions::End).await?;
        }
        self.remove_sessions(id, keep, "password changed").await?;
        // A mailed link to a new password was requested before this one was set.
        let user = tools.users.store.find_by_id(id).await?;
        tools.single_use.remove(id, &user.email, Some(Purpose::PasswordReset)).await?;
        Ok(until)
    }

    async fn remove_sessions(
        &self,
        id: &UserId,
        keep: Option<&SessionId>,
        reason: &'static str,
    ) -> Result<u64, AccountError> {
        let removed = self.foundation.sessions.remove_all(id, keep).await?;
        let event = self.foundation.audit.event(AuditKind::SessionRevoked).user(id);
        self.foundation.audit.record(event.with("reason", reason).with("sessions", removed)).await;
        Ok(removed)
    }
}
