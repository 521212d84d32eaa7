use std::sync::Arc;

use gatewright_base::{Ambient, Secret, UserId};
use gatewright_limits::{Denied, Limiter};
use http::HeaderValue;
use jiff::SignedDuration;

use super::codes::{self, Code};
use super::totp::{CorruptSecret, Issuer};
use super::{Begun, Factor, TotpSecret, TwoFactorStore, TwoFactorStoreError, qr};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::devices::{Browser, DeviceBudget, Devices};
use crate::fresh::{self, Fresh, FreshError, Given};
use crate::mail::{Mail, MailKind};
use crate::session::{Client, MintError, PendingSession, Session, SessionSecret};
use crate::step_up::{self, StepUpError};
use crate::users::{Sessions, User, UserStoreError};

/// Enrolling, proving and removing a second factor, as use cases.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    pub(crate) by_address: Limiter,
    by_account: Limiter,
    by_device: DeviceBudget,
    /// Codes that disable a factor have their own limits, so that they do not use up those for signing in.
    pub(crate) disable_by_address: Limiter,
    disable_by_account: Limiter,
    fresh: Fresh,
    parts: Parts,
}

/// State that the flows of one service share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Arc<dyn TwoFactorStore>,
    pub(super) issuer: Issuer,
    /// The page on which a factor is managed; absent without a public URL.
    pub(super) account: Option<Secret>,
}

/// How long an enrollment can be confirmed.
const ENROLLMENT_LIFETIME: SignedDuration = SignedDuration::from_mins(15);
/// How long a notice may wait for a mail server.
const NOTICE_LIFETIME: std::time::Duration = std::time::Duration::from_hours(24);

/// The data for a new enrollment. All three contain the secret.
pub(crate) struct Enrollment {
    /// The base32 text, for apps without a camera.
    pub(crate) secret: TotpSecret,
    /// The `otpauth://` address.
    pub(crate) url: Secret,
    /// Its picture, a data URI.
    pub(crate) qr: Secret,
}

/// A second factor was proven: the new session and its cookie's secret.
pub(super) struct Passed {
    pub(super) session: Session,
    pub(super) secret: SessionSecret,
    /// The cookie that makes the browser a known device.
    pub(super) device: Option<HeaderValue>,
    /// The JWT that sign-in withheld, if answers contain JWTs.
    pub(super) token: Option<Secret>,
}

/// Why something about a second factor was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TwoFactorError {
    /// Too many attempts.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Wrong, or spent.
    #[error("invalid code")]
    InvalidCode,
    #[error("two-factor authentication is enabled already")]
    AlreadyEnabled,
    #[error("two-factor authentication is not enabled")]
    NotEnabled,
    /// None is in progress in this session.
    #[error("no enrollment was begun in this session within the last 15 minutes")]
    NotBegun,
    #[error(transparent)]
    Fresh(#[from] FreshError),
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    #[error(transparent)]
    Store(#[from] TwoFactorStoreError),
    #[error(transparent)]
    Corrupt(#[from] CorruptSecret),
    #[error("the picture cannot be drawn: {0}")]
    Picture(#[from] qrcode::types::QrError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Mint(#[from] MintError),
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, parts: Parts) -> Self {
        let limits = core.config.limits;
        Self {
            by_address: core.limiter("twofa", &limits.two_factor),
            by_account: core.limiter("twofa_account", &limits.two_factor_account),
            by_device: DeviceBudget::new(core.limiter("twofa_device", &limits.two_factor_account)),
            disable_by_address: core.limiter("twofa_disable", &limits.two_factor),
            disable_by_account: core.limiter("twofa_disable_account", &limits.two_factor_account),
            fresh: Fresh::new(core.clone()),
            core,
            parts,
        }
    }

    /// Begins an enrollment with a fresh secret, which protects nothing until [`verify`](Self::verify). Only for a young
    /// session or with a proof: a thief of the session would lock the owner out.
    pub(super) async fn enroll(
        &self,
        session: &Session,
        given: &Given,
        client: &Client,
    ) -> Result<Enrollment, TwoFactorError> {
        step_up::require(&self.core, session).await?;
        self.fresh.require_unless_young(session, given, client, "a new second factor").await?;
        let user = session.user();
        let secret = TotpSecret::generate(&self.core.ambient);
        let begun = Begun { session: session.id().clone(), at: self.core.ambient.now() };
        if !self.parts.store.begin(&user.id, &secret, &begun).await? {
            return Err(TwoFactorError::AlreadyEnabled);
        }
        self.show(user, secret)
    }

    /// The enrollment in progress, for a form whose code was wrong. `None` if the session is not young: the proof at the
    /// beginning was its owner's, and this request may be a thief's.
    pub(super) async fn begun(&self, session: &Session) -> Result<Option<Enrollment>, TwoFactorError> {
        if !fresh::is_young(&self.core, session) {
            return Ok(None);
        }
        let factor = self.in_progress(session).await?;
        self.show(session.user(), factor.secret).map(Some)
    }

    /// The enrollment that this session began. It needs no second proof: only who saw the secret can confirm it.
    async fn in_progress(&self, session: &Session) -> Result<Factor, TwoFactorError> {
        let factor = self.parts.store.find(&session.user().id).await?.ok_or(TwoFactorError::NotBegun)?;
        if factor.enabled {
            return Err(TwoFactorError::AlreadyEnabled);
        }
        let now = self.core.ambient.now();
        let is_own = factor
            .begun
            .as_ref()
            .is_some_and(|begun| begun.session == *session.id() && now.duration_since(begun.at) < ENROLLMENT_LIFETIME);
        if is_own { Ok(factor) } else { Err(TwoFactorError::NotBegun) }
    }

    fn show(&self, user: &User, secret: TotpSecret) -> Result<Enrollment, TwoFactorError> {
        let url = secret.url(&self.parts.issuer, user.email.as_str())?;
        let qr = qr::picture(&url)?;
        Ok(Enrollment { secret, url, qr })
    }

    /// Confirms an enrollment with a first code and returns the backup codes.
    pub(super) async fn verify(
        &self,
        session: &Session,
        code: &Secret,
        client: &Client,
    ) -> Result<Vec<Secret>, TwoFactorError> {
        step_up::require(&self.core, session).await?;
        let user = session.user();
        self.by_account.attempt(user.id.as_str()).await?;
        let factor = self.in_progress(session).await?;
        let step = match Code::parse(code, &user.id) {
            Some(Code::Totp(code)) => factor.secret.step_of(&code, self.core.ambient.now())?,
            _ => None,
        };
        let Some(step) = step else { return Err(self.refuse(user, client, "enrollment").await) };
        let (shown, kept) = codes::generate(&user.id, &self.core.ambient);
        if !self.parts.store.enable(&user.id, &factor.secret, step, &kept).await? {
            // A concurrent verify came first, and used up the code, or a new enrollment replaced it.
            return Err(self.refuse(user, client, "enrollment").await);
        }
        if let Err(error) = self.settle(session).await {
            // Without its end the beginning would lock its user out: the codes were never shown.
            if let Err(error) = self.parts.store.remove(&user.id).await {
                tracing::error!(%error, user = %user.id, "a failed enrollment could not be undone");
            }
            return Err(error);
        }
        self.audit(AuditKind::TwoFactorEnrolled, user, client, None).await;
        self.notify(user, MailKind::TwoFactorEnabled);
        Ok(shown)
    }

    /// Finishes an enrollment: earlier JWTs are refused, and the session counts as verified.
    async fn settle(&self, session: &Session) -> Result<(), TwoFactorError> {
        let user = session.user();
        if let Some(sign_out) = &self.core.users.sign_out {
            sign_out.refuse_until(&user.id, self.core.ambient.now(), Sessions::Keep).await?;
        } else {
            tracing::warn!(user = %user.id, "this user store cannot revoke JWTs: those of this user are valid until they expire");
        }
        Ok(self.core.mint.mark_verified(session).await?)
    }

    /// Turns a pending session into one in good standing.
    pub(super) async fn challenge(
        &self,
        pending: &PendingSession,
        code: &Secret,
        client: &Client,
        browser: &Browser,
    ) -> Result<Passed, TwoFactorError> {
        let user = pending.user();
        let key = user.id.as_str();
        let counted = self.by_device.attempt(&self.core, Some(&user.id), browser, &self.by_account, key).await?;
        let factor = self.enabled(user).await?;
        let Some(method) = self.spend(user, &factor, code).await? else {
            return Err(self.refuse(user, client, "sign-in").await);
        };
        let (session, secret) = self.core.mint.complete(pending, client.clone()).await?;
        self.audit(AuditKind::TwoFactorChallengeSucceeded, user, client, Some(("method", method))).await;
        self.by_device.succeeded(&counted).await;
        let device = Devices::remember(&self.core, user, browser, client).await;
        let config = &self.core.config;
        // Issued as of the first factor, so that a refusal of old tokens since then refuses this one too.
        let token = config.tokens_in_responses.then(|| self.core.jwts.issue_verified(user, pending.started_at()));
        Ok(Passed { session, secret, device, token })
    }

    /// Removes the factor for a user who proves it once more, by a code of the app or, if the phone is lost, a backup
    /// code.
    pub(crate) async fn disable(
        &self,
        session: &Session,
        code: &Secret,
        client: &Client,
    ) -> Result<(), TwoFactorError> {
        step_up::require(&self.core, session).await?;
        let user = session.user();
        self.disable_by_account.attempt(user.id.as_str()).await?;
        let factor = self.enabled(user).await?;
        if self.spend(user, &factor, code).await?.is_none() {
            return Err(self.refuse(user, client, "disabling").await);
        }
        self.parts.store.remove(&user.id).await?;
        self.audit(AuditKind::TwoFactorDisabled, user, client, None).await;
        self.notify(user, MailKind::TwoFactorDisabled);
        Ok(())
    }

    /// Draws a new set of backup codes; the old ones become invalid. Only for a young session or with a proof: a thief of
    /// the session would disable the factor with one of them.
    pub(super) async fn fresh_backup_codes(
        &self,
        session: &Session,
        given: &Given,
        client: &Client,
    ) -> Result<Vec<Secret>, TwoFactorError> {
        step_up::require(&self.core, session).await?;
        self.fresh.require_unless_young(session, given, client, "new backup codes").await?;
        let user = session.user();
        let (shown, kept) = codes::generate(&user.id, &self.core.ambient);
        if !self.parts.store.replace_backup_codes(&user.id, &kept).await? {
            return Err(TwoFactorError::NotEnabled);
        }
        self.audit(AuditKind::TwoFactorBackupCodesRegenerated, user, client, None).await;
        self.notify(user, MailKind::BackupCodesReplaced);
        Ok(shown)
    }

    /// Whether this user has proven an authenticator app and not removed it.
    pub(crate) async fn is_enabled(&self, user: &User) -> Result<bool, TwoFactorError> {
        Ok(self.parts.store.find(&user.id).await?.is_some_and(|factor| factor.enabled))
    }

    async fn enabled(&self, user: &User) -> Result<Factor, TwoFactorError> {
        let factor = self.parts.store.find(&user.id).await?.filter(|factor| factor.enabled);
        factor.ok_or(TwoFactorError::NotEnabled)
    }

    async fn spend(&self, user: &User, factor: &Factor, code: &Secret) -> Result<Option<&'static str>, TwoFactorError> {
        spend(&*self.parts.store, &self.core.ambient, &user.id, factor, code).await
    }

    async fn refuse(&self, user: &User, client: &Client, during: &'static str) -> TwoFactorError {
        self.audit(AuditKind::TwoFactorChallengeFailed, user, client, Some(("during", during))).await;
        TwoFactorError::InvalidCode
    }

    /// Mails a notice to the account's owner, because another person may have done it.
    fn notify(&self, user: &User, kind: MailKind) {
        let Some(link) = &self.parts.account else { return };
        if self.core.mailer.is_some() && user.email_verified {
            self.core.mail(Mail::new(kind, user.email.clone(), link.clone(), NOTICE_LIFETIME));
        }
    }

    async fn audit(&self, kind: AuditKind, user: &User, client: &Client, detail: Option<(&str, &'static str)>) {
        let mut event = self.core.audit.event(kind).user(&user.id).remote(client.address());
        if let Some((name, value)) = detail {
            event = event.with(name, value);
        }
        self.core.audit.record(event).await;
    }
}

/// Uses up a code and returns its kind; `None` if it is wrong or used.
pub(super) async fn spend(
    store: &dyn TwoFactorStore,
    ambient: &Ambient,
    user: &UserId,
    factor: &Factor,
    code: &Secret,
) -> Result<Option<&'static str>, TwoFactorError> {
    let (spent, method) = match Code::parse(code, user) {
        Some(Code::Totp(code)) => match factor.secret.step_of(&code, ambient.now())? {
            Some(step) => (store.spend_step(user, &factor.secret, step).await?, "totp"),
            None => return Ok(None),
        },
        Some(Code::Backup(hash)) => (store.spend_backup_code(user, &hash).await?, "backup_code"),
        None => return Ok(None),
    };
    Ok(spent.then_some(method))
}
