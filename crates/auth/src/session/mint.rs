use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, Secret, SessionId, UserId};
use jiff::Timestamp;

#[cfg(feature = "two-factor")]
use super::TwoFactorMarkerWithin;
use super::impersonations::Impersonations;
use super::second_factors::{SecondFactor, SecondFactors};
use super::{
    Client, MintError, NewSession, PendingSession, Session, SessionSecret, SessionStore, SessionStoreError,
    StoredSession,
};
use crate::users::{BoxError, User};

/// Creates sessions. No other code can.
///
/// Password, magic link, provider sign-in and form registration all end here. Only the mint decides whether a second
/// factor is required. A session whose second factor is pending has another type, [`PendingSession`], which no handler
/// can mistake for a [`Session`].
pub struct Mint {
    store: Arc<dyn SessionStore>,
    second_factors: SecondFactors,
    ttl: Duration,
    require_verified_email: bool,
    impersonations: Option<Impersonations>,
    ambient: Ambient,
}

/// The lifetime of a session whose second factor is pending.
const PENDING_TTL: Duration = Duration::from_mins(30);

/// The lifetime of a guest's session: the longest of a cookie. Guests that are idle are deleted before.
pub(crate) const GUEST_TTL: Duration = Duration::from_hours(400 * 24);

/// A plugin's statement that a caller has proven to be this user. The mint decides which session they get.
#[derive(Debug)]
pub struct Proof {
    user: User,
    at: Timestamp,
}

/// A new session, and the secret for its cookie, which is not stored.
#[derive(Debug)]
pub enum Minted {
    /// The second factor is not pending.
    Session(Session, SessionSecret),
    /// The second factor is pending.
    Pending(PendingSession, SessionSecret),
}

impl Proof {
    /// A proof for `user`, who was loaded at `at` or later and checked against the loaded data. If old sessions are
    /// refused between `at` and the creation of the session, the new session is refused too.
    pub fn new(user: User, at: Timestamp) -> Self {
        Self { user, at }
    }

    /// The user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// When.
    pub fn at(&self) -> Timestamp {
        self.at
    }
}

impl Minted {
    /// The secret for the cookie.
    pub fn secret(&self) -> &SessionSecret {
        match self {
            Self::Session(_, secret) | Self::Pending(_, secret) => secret,
        }
    }

    /// Its public identifier.
    pub fn id(&self) -> &SessionId {
        match self {
            Self::Session(session, _) => session.id(),
            Self::Pending(session, _) => session.id(),
        }
    }
}

impl Mint {
    pub(crate) fn new(
        store: Arc<dyn SessionStore>,
        second_factors: Vec<Arc<dyn SecondFactor>>,
        ttl: Duration,
        ambient: Ambient,
    ) -> Self {
        let second_factors = SecondFactors::new(second_factors, &store);
        Self { store, second_factors, ttl, require_verified_email: false, impersonations: None, ambient }
    }

    /// Refuses users whose mailbox was never proven.
    pub(crate) fn require_verified_email(self, require_verified_email: bool) -> Self {
        Self { require_verified_email, ..self }
    }

    /// Creates a session for a guest that was just created. It proves no mailbox and no factor, because there is none.
    pub(crate) async fn mint_guest(
        &self,
        proof: &Proof,
        client: Client,
    ) -> Result<(Session, SessionSecret), MintError> {
        if proof.user.disabled || !proof.user.is_guest() {
            return Err(MintError::Disabled);
        }
        let (new, secret) = self.draw(&proof.user, proof.at, GUEST_TTL, client);
        if let Err(error) = self.store.create(&new).await {
            self.destroy(&new.user_id, &new.id).await;
            return Err(error.into());
        }
        Ok((Session::new(new, proof.user.clone()), secret))
    }

    /// [`renew`](Self::renew) for a guest, whose session proves all that there is.
    pub(crate) async fn renew_guest(
        &self,
        old: &Session,
        proof: &Proof,
        client: Client,
    ) -> Result<(Session, SessionSecret), MintError> {
        if !proof.user.is_guest() {
            return Err(MintError::Disabled);
        }
        self.renew_for(old, proof, client, GUEST_TTL).await
    }

    /// Creates sessions of operators who act as users.
    pub(crate) fn impersonations(self, impersonations: Option<Impersonations>) -> Self {
        Self { impersonations, ..self }
    }

    /// Creates a session in which an operator acts as `user` until `expires_at`, if operators may at all. The caller has
    /// checked that this one may; each use of the session checks it again.
    pub(crate) async fn impersonate(
        &self,
        user: &User,
        operator: &StoredSession,
        ttl: Duration,
    ) -> Result<Option<(NewSession, SessionSecret)>, SessionStoreError> {
        let Some(impersonations) = &self.impersonations else { return Ok(None) };
        let now = self.ambient.now();
        let (mut new, secret) = self.draw(user, now, ttl, Client::default());
        new.expires_at = later(now, ttl).min(operator.expires_at);
        impersonations.create(&new, operator).await?;
        Ok(Some((new, secret)))
    }

    /// Creates a session for the proven user: a pending one if they have a second factor. Removes the session with the
    /// secret `replaces`, the browser's former one.
    pub async fn mint(
        &self,
        proof: &Proof,
        client: Client,
        replaces: Option<&SessionSecret>,
    ) -> Result<Minted, MintError> {
        if proof.user.disabled {
            return Err(MintError::Disabled);
        }
        if self.require_verified_email && !proof.user.email_verified {
            return Err(MintError::EmailUnverified);
        }
        let minted = if self.has_second_factor(&proof.user.id).await.map_err(MintError::TwoFactorEnforcement)? {
            self.pending(proof, client).await
        } else {
            self.full(proof, client).await
        };
        if minted.is_ok() {
            self.forget(replaces).await;
        }
        minted
    }

    /// A session whose second factor is pending.
    async fn pending(&self, proof: &Proof, client: Client) -> Result<Minted, MintError> {
        let (new, secret) = self.draw(&proof.user, proof.at, self.ttl.min(PENDING_TTL), client);
        if let Err(error) = self.second_factors.create_pending(&new).await {
            // It is unknown whether the store kept it or marked it; in both cases its secret is not returned.
            self.destroy(&new.user_id, &new.id).await;
            return Err(error);
        }
        Ok(Minted::Pending(PendingSession::new(new, proof.user.clone()), secret))
    }

    /// A session of a user without a second factor.
    async fn full(&self, proof: &Proof, client: Client) -> Result<Minted, MintError> {
        let (new, secret) = self.draw(&proof.user, proof.at, self.ttl, client);
        if let Err(error) = self.store.create(&new).await {
            self.destroy(&new.user_id, &new.id).await;
            return Err(error.into());
        }
        Ok(Minted::Session(Session::new(new, proof.user.clone()), secret))
    }

    /// The same for a user who has proven both factors at once, as by a passkey whose authenticator verified its user: no
    /// second factor is pending.
    #[cfg(feature = "passkeys")]
    pub(crate) async fn mint_verified(
        &self,
        proof: &Proof,
        client: Client,
        replaces: Option<&SessionSecret>,
    ) -> Result<Minted, MintError> {
        match self.mint(proof, client.clone(), replaces).await? {
            Minted::Pending(pending, _) => {
                let (session, secret) = self.complete(&pending, client).await?;
                Ok(Minted::Session(session, secret))
            }
            minted @ Minted::Session(..) => Ok(minted),
        }
    }

    /// Replaces a pending session by a full one, with a new id and a new secret, after its second factor was proven. Of
    /// concurrent calls one succeeds.
    pub async fn complete(
        &self,
        pending: &PendingSession,
        client: Client,
    ) -> Result<(Session, SessionSecret), MintError> {
        // It begins when the first factor was proven, so that a refusal of old sessions since then ends this one too.
        let (mut new, secret) = self.draw(pending.user(), pending.started_at(), self.ttl, client);
        new.expires_at = later(self.ambient.now(), self.ttl);
        self.second_factors.complete(pending.id(), &new).await?;
        Ok((Session::verified(new, pending.user().clone()), secret))
    }

    /// Replaces a session by a new one, with a new id and a new secret, after its user has proven their password again. If
    /// the second factor was proven in the old one, this also counts for the new one. Fails if the old one was ended in
    /// between (a reset, a logout everywhere).
    pub(crate) async fn renew(
        &self,
        old: &Session,
        proof: &Proof,
        client: Client,
    ) -> Result<(Session, SessionSecret), MintError> {
        self.renew_for(old, proof, client, self.ttl).await
    }

    async fn renew_for(
        &self,
        old: &Session,
        proof: &Proof,
        client: Client,
        ttl: Duration,
    ) -> Result<(Session, SessionSecret), MintError> {
        let (new, secret) = self.draw(&proof.user, proof.at, ttl, client);
        let verified = old.two_factor_verified();
        let make = if verified { Session::verified } else { Session::new };
        match self.store.replace(old.id(), &new, verified).await? {
            Some(true) => return Ok((make(new, proof.user.clone()), secret)),
            Some(false) => return Err(MintError::Gone),
            None => {}
        }
        if let Err(error) = self.store.create(&new).await {
            self.destroy(&new.user_id, &new.id).await;
            return Err(error.into());
        }
        let session = make(new, proof.user.clone());
        // In this order: if all sessions are ended concurrently, this ends either the old one before it is replaced, or
        // the new one.
        let replaced = async {
            if verified {
                self.mark_verified(&session).await?;
            }
            if self.store.remove(&proof.user.id, old.id()).await? { Ok(()) } else { Err(MintError::Gone) }
        };
        if let Err(error) = replaced.await {
            self.destroy(&proof.user.id, session.id()).await;
            return Err(error);
        }
        Ok((session, secret))
    }

    /// Marks the session in which a second factor was enrolled as verified, and the user's other sessions as not
    /// verified: they proved an earlier factor.
    pub async fn mark_verified(&self, session: &Session) -> Result<(), MintError> {
        self.second_factors.mark_verified(&session.user().id, session.id()).await
    }

    /// The same in a transaction of the service's database, if sessions are stored there.
    #[cfg(feature = "two-factor")]
    pub(crate) fn marker_within(&self) -> Option<Arc<dyn TwoFactorMarkerWithin>> {
        self.second_factors.marker_within()
    }

    /// Whether any registered checker says that this user has a second factor.
    pub async fn has_second_factor(&self, user: &UserId) -> Result<bool, BoxError> {
        self.second_factors.enabled(user).await
    }

    /// Whether `code` proves one of this user's second factors. It is spent.
    pub(crate) async fn prove_second_factor(&self, user: &UserId, code: &Secret) -> Result<bool, BoxError> {
        self.second_factors.prove(user, code).await
    }

    /// Removes every second factor of this user; `false` if there was none.
    pub async fn remove_second_factors(&self, user: &UserId) -> Result<bool, BoxError> {
        self.second_factors.remove(user).await
    }

    /// What of this user's second factors was added at or after `since`, in the words of audit events.
    pub(crate) async fn second_factors_since(
        &self,
        user: &UserId,
        since: Timestamp,
    ) -> Result<Vec<&'static str>, BoxError> {
        self.second_factors.added_since(user, since).await
    }

    /// Removes it, and returns what it was.
    pub(crate) async fn remove_second_factors_since(
        &self,
        user: &UserId,
        since: Timestamp,
    ) -> Result<Vec<&'static str>, BoxError> {
        self.second_factors.remove_since(user, since).await
    }

    fn draw(&self, user: &User, started_at: Timestamp, ttl: Duration, client: Client) -> (NewSession, SessionSecret) {
        let secret = SessionSecret::new(self.ambient.bytes());
        // A session that follows a refusal within its microsecond must outlive it.
        let after = user.sessions_valid_after.map(|after| later(after, Duration::from_micros(1)));
        let started_at = started_at.max(after.unwrap_or(Timestamp::MIN));
        let new = NewSession {
            id: SessionId::generate(&self.ambient),
            key: secret.key(),
            user_id: user.id.clone(),
            started_at,
            expires_at: later(started_at, ttl),
            client,
        };
        (new, secret)
    }

    async fn destroy(&self, user: &UserId, id: &SessionId) {
        if let Err(error) = self.store.remove(user, id).await {
            tracing::warn!(%error, session = %id, "a session that was not handed out could not be removed");
        }
    }

    async fn forget(&self, secret: Option<&SessionSecret>) {
        let Some(secret) = secret else { return };
        let taken = match (self.store.take(&secret.key()).await, &self.impersonations) {
            (Ok(None), Some(impersonations)) => impersonations.take(&secret.key()).await.map(|_| ()),
            (taken, _) => taken.map(|_| ()),
        };
        if let Err(error) = taken {
            tracing::warn!(%error, "a browser's former session could not be removed; it ends when it expires");
        }
    }
}

/// `by` after `moment`, or the end of the calendar.
fn later(moment: Timestamp, by: Duration) -> Timestamp {
    moment.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mint").field("second_factors", &self.second_factors.len()).finish_non_exhaustive()
    }
}
