use std::sync::Arc;

use gatewright_base::{Ambient, Secret, UserId};
use gatewright_limits::{Denied, Limiter};
use http::HeaderValue;
use jiff::SignedDuration;

use super::codes::{self, Code};
use super::enabling::{self, Proven};
use super::totp::{CorruptSecret, Issuer};
use super::{Begun, Factor, TotpSecret, TwoFactorStore, TwoFactorStoreError, qr};
use crate::audit::{AuditEvent, AuditKind, PendingEvent};
use crate::core::Core;
use crate::devices::{Browser, DeviceBudget, Devices};
use crate::fresh::{self, Fresh, FreshError, Given};
use crate::mail::Notice;
use crate::session::{Client, MintError, PendingSession, Session, SessionSecret};
use crate::session_limit::{SessionLimit, TWO_FACTOR_DISABLE};
use crate::step_up::{self, StepUpError};
use crate::users::{User, UserStoreError};

/// Enrolling, proving and removing a second factor, as use cases.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    pub(crate) by_address: Limiter,
    by_account: Limiter,
    by_device: DeviceBudget,
    /// Codes that disable a factor have their own limits, so that they do not use up those for signing in.
    pub(crate) disable_by_address: Limiter,
    disabling: SessionLimit,
    fresh: Fresh,
    parts: Parts,
}

/// State that the flows of one service share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Arc<dyn TwoFactorStore>,
    pub(super) issuer: Issuer,
}

/// How long an enrollment can be confirmed.
const ENROLLMENT_LIFETIME: SignedDuration = SignedDuration::from_mins(15);

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
            disabling: SessionLimit::new(&core, &TWO_FACTOR_DISABLE, &limits.two_factor_account),
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
        let proven = Proven { secret: factor.secret, step, codes: kept };
        let event = self.begin(AuditKind::TwoFactorEnrolled, user, client, None).await?;
        if !enabling::enable(&self.core, &self.parts.store, session, proven).await? {
            event.withdraw().await;
            // A concurrent verify came first, and used up the code, or a new enrollment replaced it.
            return Err(self.refuse(user, client, "enrollment").await);
        }
        event.done().await;
        self.core.notify(user, Notice::TwoFactorEnabled).await;
        Ok(shown)
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
        let event = self.begin(AuditKind::TwoFactorChallengeSucceeded, user, client, Some(("method", method))).await?;
        let (session, secret) = match self.core.mint.complete(pending, client.clone()).await {
            Ok(completed) => completed,
            Err(error) => {
                event.withdraw().await;
                return Err(error.into());
            }
        };
        event.done().await;
        counted.succeeded().await;
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
        self.disabling.attempt(&self.core, session).await?;
        let factor = self.enabled(user).await?;
        if self.spend(user, &factor, code).await?.is_none() {
            return Err(self.refuse(user, client, "disabling").await);
        }
        let event = self.begin(AuditKind::TwoFactorDisabled, user, client, None).await?;
        self.parts.store.remove(&user.id).await?;
        event.done().await;
        self.core.notify(user, Notice::TwoFactorDisabled).await;
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
        let event = self.begin(AuditKind::TwoFactorBackupCodesRegenerated, user, client, None).await?;
        if !self.parts.store.replace_backup_codes(&user.id, &kept, self.core.ambient.now()).await? {
            event.withdraw().await;
            return Err(TwoFactorError::NotEnabled);
        }
        event.done().await;
        self.core.notify(user, Notice::BackupCodesReplaced).await;
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

    async fn audit(&self, kind: AuditKind, user: &User, client: &Client, detail: Option<(&str, &'static str)>) {
        self.core.audit.record(self.event(kind, user, client, detail)).await;
    }

    /// The event of an act that is about to take effect.
    async fn begin(
        &self,
        kind: AuditKind,
        user: &User,
        client: &Client,
        detail: Option<(&str, &'static str)>,
    ) -> Result<PendingEvent, UserStoreError> {
        Ok(self.core.audit.begin(self.event(kind, user, client, detail)).await?)
    }

    fn event(&self, kind: AuditKind, user: &User, client: &Client, detail: Option<(&str, &'static str)>) -> AuditEvent {
        let event = self.core.audit.event(kind).user(&user.id).remote(client.address());
        detail.into_iter().fold(event, |event, (name, value)| event.with(name, value))
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
