use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_limits::{Denied, Limiter};
use http::HeaderValue;
use jiff::Timestamp;

use super::change::ChangePassword;
use super::registration::Accepted;
use crate::audit::AuditKind;
use crate::core::Core;
use crate::devices::{Browser, Counted, DeviceBudget};
use crate::email::EmailAddress;
use crate::guests::{self, UpgradeError};
use crate::invitations::Invitation;
use crate::password::{Check, HashError, Overloaded, Requester};
use crate::plugins::invitations::{self, AcceptError};
use crate::plugins::registration::{self, RegistrationError};
use crate::plugins::sign_in::{self, SignedIn};
use crate::session::{Client, MintError, Proof};
use crate::users::{GuestUpgrade, NewUser, User, UserStoreError, UserWithHash};

/// Registration, sign-in and sign-out, as use cases.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    pub(super) login_by_address: Limiter,
    pub(super) register_by_address: Limiter,
    pub(super) change: ChangePassword,
    login_by_account: Limiter,
    login_by_device: DeviceBudget,
}

/// The input for a sign-in.
pub(super) struct Credentials<'a> {
    pub(super) email: &'a str,
    pub(super) password: &'a Secret,
}

/// A new account.
pub(super) struct Registered {
    pub(super) proof: Proof,
    /// The cookie for the code of a mail that must be confirmed before the sign-in.
    pub(super) code: Option<HeaderValue>,
}

/// Why a registration failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegisterError {
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Policy(#[from] RegistrationError),
    #[error(transparent)]
    Guest(#[from] UpgradeError),
    #[error(transparent)]
    Invitation(#[from] AcceptError),
}

/// Why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    /// Too many attempts.
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Why a sign-in within the limits failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("invalid credentials")]
    InvalidCredentials,
    /// The password is right, and the mailbox was never proven. Contains the cookie for the code of the mail.
    #[error("the email address is not verified")]
    EmailUnverified(Box<User>, Option<HeaderValue>),
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Mint(#[from] MintError),
}

impl Flow {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let limits = core.config.limits;
        Self {
            login_by_address: core.limiter("login_ip", &limits.login).dev_mode(core.config.dev_mode),
            login_by_account: core.limiter("login_account", &limits.login_account),
            login_by_device: DeviceBudget::new(core.limiter("login_device", &limits.login_account)),
            register_by_address: core.limiter("register", &limits.register).dev_mode(core.config.dev_mode),
            change: ChangePassword::new(core.clone()),
            core,
        }
    }

    /// Creates an account with the default roles, or those of its invitation. A guest becomes it. The password is hashed before the address is
    /// checked, so that a taken address takes as long as a free one.
    pub(super) async fn register(
        &self,
        accepted: Accepted,
        guest: Option<&User>,
        client: &Client,
        by_form: bool,
    ) -> Result<Registered, RegisterError> {
        let Accepted { email, password, invite, profile } = accepted;
        let invitation = registration::admit(&self.core, &email, invite.as_ref()).await?;
        let password_hash = self.core.passwords.hash(Requester::client(client.address()), &password).await?;
        if registration::is_reserved(&self.core, &email).await? {
            return Err(UserStoreError::EmailTaken.into());
        }
        let at = self.core.ambient.now();
        let new = NewUser { email, password_hash, roles: self.core.config.default_roles.clone(), profile };
        let (user, at) = match (guest, &invitation, invitations::Flow::new(&self.core)) {
            (Some(guest), invitation, flow) => {
                self.register_guest(guest, &new, invitation.as_ref().zip(flow.as_ref()), client).await?
            }
            (None, Some(invitation), Some(flow)) => (self.register_invited(&flow, invitation, new, client).await?, at),
            (None, Some(_), None) | (None, None, _) => (self.core.users.store.create(new).await?, at),
        };
        let event = self.core.audit.event(AuditKind::RegisterSucceeded).user(&user.id).remote(client.address());
        let event = event.with("email", user.email.as_str());
        let event = if guest.is_some() { event.with("guest", user.id.as_str()) } else { event };
        self.core.audit.record(event).await;
        let mut code = None;
        if self.core.config.require_verified_email && !user.email_verified {
            code = self.mail_verification(&user, client, by_form).await;
        }
        Ok(Registered { proof: Proof::new(user, at), code })
    }

    /// Of concurrent registrations with one invitation, one creates the account. If it fails, the invitation works
    /// again.
    async fn register_invited(
        &self,
        flow: &invitations::Flow,
        invitation: &Invitation,
        new: NewUser,
        client: &Client,
    ) -> Result<User, RegisterError> {
        if flow.has_account(&new.email).await? {
            return Err(UserStoreError::EmailTaken.into());
        }
        let roles = invitation.roles.clone().unwrap_or(new.roles);
        Ok(flow.register(invitation, NewUser { roles, ..new }, client).await?)
    }

    /// A guest becomes the account, and accepts the invitation. Returns a moment for the session that follows, too.
    async fn register_guest(
        &self,
        guest: &User,
        new: &NewUser,
        invitation: Option<(&Invitation, &invitations::Flow)>,
        client: &Client,
    ) -> Result<(User, Timestamp), RegisterError> {
        let upgrade = GuestUpgrade {
            email: &new.email,
            password_hash: Some(&new.password_hash),
            profile: new.profile.as_deref(),
        };
        let (user, at) = guests::upgrade(&self.core, guest, &upgrade, false).await?;
        let Some((invitation, flow)) = invitation else { return Ok((user, at)) };
        Ok((flow.join(user, at, invitation, client).await?, at))
    }

    /// Mails the verification link that the account needs for a sign-in. It counts towards the same limits as requested
    /// mails. Returns the cookie with which this browser may submit the code of the mail.
    async fn mail_verification(&self, user: &User, client: &Client, by_form: bool) -> Option<HeaderValue> {
        let links = self.core.verification.as_ref()?;
        let drawn = links.draw(by_form);
        if let Err(error) = links.send(&drawn, &user.email, Some(&user.id), None, client.address()).await {
            tracing::error!(%error, "a verification link was not mailed");
        }
        Some(links.cookie(&drawn))
    }

    /// Signs a user in by password. Unknown address, wrong password and an account without a password cannot be
    /// distinguished by the answer or by its time.
    pub(super) async fn login(
        &self,
        given: &Credentials<'_>,
        client: Client,
        browser: &Browser,
        by_form: bool,
    ) -> Result<SignedIn, LoginError> {
        let email = EmailAddress::parse(given.email).ok();
        let at = self.core.ambient.now();
        let found = self.find(email.as_ref()).await;
        // Counted before the password is checked, right or wrong: an attacker who guesses right does not find out
        // sooner. An unavailable store of limits refuses before an unavailable store of users fails.
        let counted = match &email {
            Some(email) => {
                let user = found.as_ref().ok().and_then(|found| found.as_ref().map(|found| &found.user.id));
                let attempt =
                    self.login_by_device.attempt(&self.core, user, browser, &self.login_by_account, email.as_str());
                attempt.await?
            }
            None => Counted::Account,
        };
        let found = found?;
        let requester = match (&counted, &found) {
            (Counted::Device(_), Some(found)) => Requester::known_device(&found.user.id),
            _ => Requester::client(client.address()),
        };
        let proof = self.prove(email.as_ref(), found, at, given.password, (requester, &client)).await?;
        counted.succeeded().await;
        if self.core.config.require_verified_email && !proof.user().email_verified {
            let code = self.mail_verification(proof.user(), &client, by_form).await;
            let event = self.core.audit.event(AuditKind::LoginFailed).user(&proof.user().id).remote(client.address());
            self.core.audit.record(event.with("reason", "the email address is not verified")).await;
            return Err(Refused::EmailUnverified(Box::new(proof.user().clone()), code).into());
        }
        Ok(self.admit(proof, client, browser).await?)
    }

    async fn find(&self, email: Option<&EmailAddress>) -> Result<Option<UserWithHash>, Refused> {
        let Some(email) = email else { return Ok(None) };
        match self.core.users.store.find_by_email(email).await {
            Ok(found) => Ok(Some(found)),
            Err(UserStoreError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// `at` is a time before the account was looked up.
    async fn prove(
        &self,
        email: Option<&EmailAddress>,
        found: Option<UserWithHash>,
        at: Timestamp,
        password: &Secret,
        (requester, client): (Requester, &Client),
    ) -> Result<Proof, Refused> {
        let stored = found.as_ref().and_then(|found| found.password_hash.clone());
        match (self.core.passwords.check(requester, password, stored).await?, found) {
            (Check::Right { .. }, Some(found)) if found.user.disabled => {
                sign_in::refused_disabled(&self.core, &found.user.id, client.address(), "password").await;
                Err(Refused::InvalidCredentials)
            }
            (Check::Right { outdated }, Some(found)) => {
                if let (true, Some(old)) = (outdated, &found.password_hash) {
                    self.core.renew_hash(requester, &found.user, password, old).await;
                }
                Ok(Proof::new(found.user, at))
            }
            (Check::Unreadable, Some(found)) => {
                let reason = Core::unreadable_hash(&found.user);
                self.audit_failure(email, Some(&found.user), reason, client).await;
                Err(Refused::InvalidCredentials)
            }
            (_, found) => {
                let user = found.map(|found| found.user);
                self.audit_failure(email, user.as_ref(), "invalid credentials", client).await;
                Err(Refused::InvalidCredentials)
            }
        }
    }

    /// Passes a proven user to the mint.
    pub(super) async fn admit(&self, proof: Proof, client: Client, browser: &Browser) -> Result<SignedIn, Refused> {
        Ok(sign_in::admit(&self.core, proof, client, browser, "password").await?)
    }

    /// Whether a new account already needs a second factor, as a program may require of all accounts.
    pub(super) async fn needs_second_factor(&self, user: &User) -> Result<bool, MintError> {
        self.core.mint.has_second_factor(&user.id).await.map_err(MintError::TwoFactorEnforcement)
    }

    async fn audit_failure(
        &self,
        email: Option<&EmailAddress>,
        user: Option<&User>,
        reason: &'static str,
        client: &Client,
    ) {
        let mut event = self.core.audit.event(AuditKind::LoginFailed).remote(client.address());
        event = event.with("reason", reason);
        // A text that is not an address may be a password that was typed into the wrong field.
        if let Some(email) = email {
            event = event.with("email", email.as_str());
        }
        if let Some(user) = user {
            event = event.user(&user.id);
        }
        self.core.audit.record(event).await;
    }
}
