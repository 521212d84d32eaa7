//! Signs the owner of a proven mailbox in: by a magic link, or by a code in a mail. Without an account, it creates one.

use std::sync::Arc;

use gatewright_http::Problem;
use jiff::Timestamp;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::devices::Browser;
use crate::email::EmailAddress;
use crate::guests::{self, UpgradeError};
use crate::mailbox::{self, Holder, Method, ProveError};
use crate::password::HashError;
use crate::plugins::passwordless::{self, CreateError};
use crate::plugins::registration::{self, RegistrationError};
use crate::plugins::sign_in::{SignedIn, admit, refused_disabled};
use crate::problem;
use crate::session::{Client, MintError, Proof};
use crate::single_use::SingleUseStoreError;
use crate::users::{GuestUpgrade, User, UserStoreError};

/// What was mailed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mailed {
    Link,
    Code,
}

/// The account of an address, looked up before its token is spent, so that an unavailable store spends none.
pub(crate) struct Owner {
    email: EmailAddress,
    known: Option<User>,
    /// A moment before the lookup.
    at: Timestamp,
}

/// Why the sign-in failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RedeemError {
    /// The token is unknown, has another purpose, or is used or expired.
    #[error("invalid or expired token")]
    InvalidToken,
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Prove(#[from] ProveError),
    #[error(transparent)]
    Mint(#[from] MintError),
    #[error(transparent)]
    Policy(#[from] RegistrationError),
}

impl Mailed {
    /// Audits the request for a mail.
    pub(crate) async fn audit_request(self, core: &Core, email: &EmailAddress, client: &Client) {
        let kind = match self {
            Self::Link => AuditKind::MagicLinkRequested,
            Self::Code => AuditKind::EmailCodeRequested,
        };
        let event = core.audit.event(kind).remote(client.address());
        core.audit.record(event.with("email", email.as_str())).await;
    }

    /// Signs the owner of a mailbox in, whose token was just spent. Without an account, `guest` becomes theirs.
    pub(crate) async fn sign_in(
        self,
        core: &Arc<Core>,
        owner: Owner,
        guest: Option<&User>,
        client: Client,
        browser: &Browser,
    ) -> Result<SignedIn, RedeemError> {
        let Owner { email, known, at } = owner;
        let proof = match known {
            Some(user) => self.prove(core, user, at, &client).await?,
            None => match self.create(core, &email, guest, &client).await {
                Ok((user, since)) => Proof::new(user, since.unwrap_or(at)),
                // Another request created the account first, perhaps with a password: the account still belongs to this
                // mailbox.
                Err(RedeemError::Users(UserStoreError::EmailTaken)) => {
                    let user = find(core, &email).await?.ok_or(RedeemError::InvalidToken)?;
                    self.prove(core, user, at, &client).await?
                }
                Err(error) => return Err(error),
            },
        };
        let kind = match self {
            Self::Link => AuditKind::MagicLinkConsumed,
            Self::Code => AuditKind::EmailCodeConsumed,
        };
        core.audit.record(core.audit.event(kind).user(&proof.user().id).remote(client.address())).await;
        Ok(admit(core, proof, client, browser, self.name()).await?)
    }

    /// The owner of an existing account. If its mailbox was never proven, the account is claimed first.
    async fn prove(self, core: &Core, user: User, at: Timestamp, client: &Client) -> Result<Proof, RedeemError> {
        if user.disabled {
            refused_disabled(core, &user.id, client.address(), self.name()).await;
        }
        let method = match self {
            Self::Link => Method::MagicLink,
            Self::Code => Method::EmailCode,
        };
        let proven = mailbox::prove(core, user, at, Holder::Mailbox, method).await?;
        proven.audit_effect(core, client, method).await;
        Ok(Proof::new(proven.user, proven.at))
    }

    /// A new account, or the guest's. Then also a moment for the session that follows.
    async fn create(
        self,
        core: &Arc<Core>,
        email: &EmailAddress,
        guest: Option<&User>,
        client: &Client,
    ) -> Result<(User, Option<Timestamp>), RedeemError> {
        registration::admit_passwordless(core, email, true).await?;
        if registration::is_reserved(core, email).await? {
            return Err(RedeemError::InvalidToken);
        }
        let mut upgraded = None;
        if let Some(guest) = guest {
            let new = GuestUpgrade { email, password_hash: None, profile: None };
            match guests::upgrade(core, guest, &new, true).await {
                Ok(done) => upgraded = Some(done),
                // Another address was faster. The owner of this mailbox gets an account of their own.
                Err(UpgradeError::NoGuest) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let was_guest = upgraded.is_some();
        let (user, since) = match upgraded {
            Some((user, at)) => (user, Some(at)),
            None => (passwordless::create(core, passwordless::new_user(core, email, true)).await?, None),
        };
        let event = core.audit.event(AuditKind::RegisterSucceeded).user(&user.id).remote(client.address());
        let event = event.with("email", user.email.as_str()).with("method", self.name());
        core.audit.record(if was_guest { event.with("guest", user.id.as_str()) } else { event }).await;
        Ok((user, since))
    }

    /// The name of the method in audit events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Link => "magic_link",
            Self::Code => "email_code",
        }
    }
}

impl Owner {
    /// The owner of `email`, with or without an account.
    pub(crate) async fn of(core: &Core, email: &EmailAddress) -> Result<Self, UserStoreError> {
        let at = core.ambient.now();
        Ok(Self { email: email.clone(), known: find(core, email).await?, at })
    }

    /// Their account.
    pub(crate) fn account(&self) -> Option<&User> {
        self.known.as_ref()
    }
}

async fn find(core: &Core, email: &EmailAddress) -> Result<Option<User>, UserStoreError> {
    match core.users.store.find_by_email(email).await {
        Ok(found) => Ok(Some(found.user)),
        Err(UserStoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// If the owner of the address can get it back, mails the link for that instead, and returns `true`.
pub(crate) async fn remind(core: &Core, email: &EmailAddress, client: &Client) -> Result<bool, RedeemError> {
    match &core.email_changes {
        Some(changes) => Ok(changes.remind(core, email, client.address()).await?),
        None => Ok(false),
    }
}

impl From<UpgradeError> for RedeemError {
    fn from(error: UpgradeError) -> Self {
        match error {
            UpgradeError::Users(error) => error.into(),
            error => UserStoreError::transport(error).into(),
        }
    }
}

impl From<CreateError> for RedeemError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Users(error) => error.into(),
            CreateError::Hash(error) => error.into(),
        }
    }
}

impl From<RedeemError> for Problem {
    fn from(error: RedeemError) -> Self {
        match error {
            RedeemError::InvalidToken => problem::invalid_token(),
            RedeemError::Tokens(error) => problem::store_failed(&error),
            RedeemError::Users(error) => error.into(),
            RedeemError::Hash(error) => error.into(),
            RedeemError::Prove(error) => error.into(),
            RedeemError::Mint(error) => error.into(),
            RedeemError::Policy(error) => error.into(),
        }
    }
}
