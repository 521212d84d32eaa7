use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;
use gatewright_http::Problem;
use gatewright_limits::{Attempt, Denied, Limiter, Policy};
use http::HeaderMap;

use super::codes::{Codes, Drawn, LIFETIME};
use crate::audit::AuditKind;
use crate::config::Limit;
use crate::core::Core;
use crate::devices::{Browser, DeviceBudget};
use crate::email::EmailAddress;
use crate::guests;
use crate::plugins::mailed_sign_in::{self, Mailed, Owner, RedeemError};
use crate::plugins::sign_in::SignedIn;
use crate::session::Client;
use crate::single_use::codes::CodeError;
use crate::users::UserStoreError;

/// Attempts for one mail.
const BY_MAIL: u32 = 5;
/// Wrong codes for one mailbox in a day, from unknown browsers.
const BY_MAILBOX: u32 = 20;
const DAY: Duration = Duration::from_hours(24);

/// Asking for a code, and signing in by it.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    pub(super) codes: Codes,
    by_mail: Limiter,
    by_mailbox: Limiter,
    by_device: DeviceBudget,
}

/// What came back.
pub(super) struct Returned<'a> {
    pub(super) email: &'a str,
    pub(super) code: &'a Secret,
    pub(super) request: Option<&'a Secret>,
}

/// Why a code signs nobody in.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifyError {
    /// Too many attempts.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Wrong, of another request or address, not mailed, used or expired.
    #[error("invalid or expired code")]
    Invalid,
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Refused(#[from] RedeemError),
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, codes: Codes) -> Self {
        let limiter = |scope, attempts, time| {
            let policy = Policy::new(attempts, time, time);
            core.limiter(scope, &Limit { policy, trust_forwarded_for: false })
        };
        Self {
            codes,
            by_mail: limiter("mail_code", BY_MAIL, LIFETIME),
            by_mailbox: limiter("email_code_account", BY_MAILBOX, DAY),
            by_device: DeviceBudget::new(limiter("email_code_device", BY_MAILBOX, DAY)),
            core,
        }
    }

    /// Mails a code, without checking whether there is an account. If the owner of the address can get it back, the link for
    /// that is mailed instead.
    pub(super) async fn send(&self, drawn: &Drawn, client: &Client) -> Result<(), RedeemError> {
        if !mailed_sign_in::remind(&self.core, drawn.email(), client).await? {
            self.codes.send(drawn, client.address()).await?;
        }
        Mailed::Code.audit_request(&self.core, drawn.email(), client).await;
        Ok(())
    }

    /// Spends the code and signs its mailbox's owner in.
    pub(super) async fn verify(
        &self,
        returned: &Returned<'_>,
        headers: &HeaderMap,
        client: Client,
    ) -> Result<SignedIn, VerifyError> {
        let email = EmailAddress::parse(returned.email).map_err(|_| VerifyError::Invalid)?;
        let drawn = self.codes.returned(returned.request, headers).ok_or(VerifyError::Invalid)?;
        // Before anything counts: the request of one mailbox uses up no attempt of another.
        if *drawn.email() != email {
            return Err(VerifyError::Invalid);
        }
        let browser = Browser::of(&self.core, headers);
        let owner = Owner::of(&self.core, &email).await?;
        let attempt = self.count(&drawn, &owner, &browser).await?;
        if !drawn.is_code(returned.code) {
            self.audit_failure(&owner, &email, &client).await;
            return Err(VerifyError::Invalid);
        }
        let is_live = self.codes.is_live(&drawn).await.map_err(RedeemError::from)?;
        if !is_live || !self.codes.spend(&drawn).await.map_err(RedeemError::from)? {
            return Err(VerifyError::Invalid);
        }
        attempt.give_back().await;
        let guest = guests::of_browser(&self.core, &browser).await?;
        Ok(Mailed::Code.sign_in(&self.core, owner, guest.as_ref(), client, &browser).await?)
    }

    /// Counts an attempt, before the code is compared, so that no number of parallel guesses gets past the limits.
    async fn count(&self, drawn: &Drawn, owner: &Owner, browser: &Browser) -> Result<Attempt, Denied> {
        self.by_mail.attempt(&drawn.counted_as()).await?;
        let user = owner.account().map(|user| &user.id);
        self.by_device.begin(&self.core, user, browser, &self.by_mailbox, drawn.email().as_str()).await
    }

    async fn audit_failure(&self, owner: &Owner, email: &EmailAddress, client: &Client) {
        let event = self.core.audit.event(AuditKind::LoginFailed).remote(client.address());
        let event = event.with("reason", "invalid code").with("method", Mailed::Code.name());
        let event = event.with("email", email.as_str());
        self.core
            .audit
            .record(match owner.account() {
                Some(user) => event.user(&user.id),
                None => event,
            })
            .await;
    }
}

impl From<VerifyError> for Problem {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Denied(denied) => CodeError::Denied(denied).into(),
            VerifyError::Invalid | VerifyError::Refused(RedeemError::InvalidToken) => CodeError::Invalid.into(),
            VerifyError::Users(error) => error.into(),
            VerifyError::Refused(error) => error.into(),
        }
    }
}
