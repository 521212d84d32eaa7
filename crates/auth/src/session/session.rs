use std::sync::Arc;

use gatewright_base::{Credential, Identity, Principal, SessionId, Subject, UserId};
use jiff::{SignedDuration, Timestamp};

use super::{NewSession, StoredSession};
use crate::users::User;

/// The maximum age of a session that needs no further proof of its user.
const YOUNG: SignedDuration = SignedDuration::from_mins(5);

/// A user's session, whose second factor is not pending. As an argument of a handler it requires one: 401 without a
/// session, 403 `two-factor verification required` while the second factor is pending.
///
/// Only [`Mint`](super::Mint) creates one, at a sign-in or from the cookie of one.
///
/// ```compile_fail,E0451
/// # fn forge(user: gatewright_auth::users::User) {
/// let forged = gatewright_auth::session::Session { inner: unreachable!() };
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<Inner>,
    two_factor_verified: bool,
}

/// A session whose user has proven the first factor but not yet the second. As an argument of a handler it accepts only
/// such callers.
#[derive(Debug, Clone)]
pub struct PendingSession {
    inner: Arc<Inner>,
}

/// Either kind of session, for routes that accept both: logout.
#[derive(Debug, Clone)]
pub enum AnySession {
    /// The second factor is not pending.
    Full(Session),
    /// The second factor is pending.
    Pending(PendingSession),
}

#[derive(Debug)]
struct Inner {
    id: SessionId,
    user: User,
    started_at: Timestamp,
    expires_at: Timestamp,
    /// The operator who acts as the user, if it is not the user.
    impersonated_by: Option<UserId>,
}

impl Inner {
    fn of(new: NewSession, user: User) -> Arc<Self> {
        Arc::new(Self {
            id: new.id,
            user,
            started_at: new.started_at,
            expires_at: new.expires_at,
            impersonated_by: None,
        })
    }

    fn stored(stored: &StoredSession, user: User, impersonated_by: Option<UserId>) -> Arc<Self> {
        let (id, started_at, expires_at) = (stored.id.clone(), stored.started_at, stored.expires_at);
        Arc::new(Self { id, user, started_at, expires_at, impersonated_by })
    }
}

impl Session {
    /// A session that the mint has just stored, without a pending second factor.
    pub(super) fn new(new: NewSession, user: User) -> Self {
        Self { inner: Inner::of(new, user), two_factor_verified: false }
    }
    /// The same for a user who has proven a second factor.
    pub(super) fn verified(new: NewSession, user: User) -> Self {
        Self { inner: Inner::of(new, user), two_factor_verified: true }
    }

    /// Its public identifier.
    pub fn id(&self) -> &SessionId {
        &self.inner.id
    }
    /// Its user, as they were when the request came in.
    pub fn user(&self) -> &User {
        &self.inner.user
    }
    /// When its user authenticated.
    pub fn started_at(&self) -> Timestamp {
        self.inner.started_at
    }
    /// When it expires.
    pub fn expires_at(&self) -> Timestamp {
        self.inner.expires_at
    }
    /// The operator who acts as the user in this session; `None` in a session of the user's own.
    pub fn impersonated_by(&self) -> Option<&UserId> {
        self.inner.impersonated_by.as_ref()
    }
    /// Whether its user authenticated less than five minutes before `now`. An operator has proven nothing of the user's.
    pub(crate) fn is_young(&self, now: Timestamp) -> bool {
        self.inner.impersonated_by.is_none() && now.duration_since(self.inner.started_at) < YOUNG
    }
    /// Whether a second factor was proven in it.
    pub fn two_factor_verified(&self) -> bool {
        self.two_factor_verified
    }
}

impl PendingSession {
    /// A session that the mint has just stored, with a pending second factor.
    pub(super) fn new(new: NewSession, user: User) -> Self {
        Self { inner: Inner::of(new, user) }
    }

    /// Its public identifier.
    pub fn id(&self) -> &SessionId {
        &self.inner.id
    }
    /// The user it will belong to.
    pub fn user(&self) -> &User {
        &self.inner.user
    }
    /// When the first factor was proven.
    pub fn started_at(&self) -> Timestamp {
        self.inner.started_at
    }
}

impl AnySession {
    /// The session of a store's record. The caller has checked that it is live and that `user` is its user.
    pub(super) fn of_stored(stored: &StoredSession, user: User) -> Self {
        let inner = Inner::stored(stored, user, None);
        if stored.pending_two_factor {
            Self::Pending(PendingSession { inner })
        } else {
            Self::Full(Session { inner, two_factor_verified: stored.two_factor_verified })
        }
    }

    /// The session in which this operator acts as `user`. The caller has checked that the operator may.
    pub(super) fn impersonated(stored: &StoredSession, user: User, by: UserId) -> Self {
        let inner = Inner::stored(stored, user, Some(by));
        Self::Full(Session { inner, two_factor_verified: false })
    }

    /// The operator who acts as the user in this session.
    pub(crate) fn impersonated_by(&self) -> Option<&UserId> {
        match self {
            Self::Full(session) => session.impersonated_by(),
            Self::Pending(_) => None,
        }
    }

    /// Its public identifier.
    pub fn id(&self) -> &SessionId {
        match self {
            Self::Full(session) => session.id(),
            Self::Pending(session) => session.id(),
        }
    }

    /// Its user.
    pub fn user(&self) -> &User {
        match self {
            Self::Full(session) => session.user(),
            Self::Pending(session) => session.user(),
        }
    }

    /// The session's user.
    pub(crate) fn identity(&self) -> Identity {
        match self {
            Self::Pending(session) => Identity::Pending(session.user().id.clone()),
            Self::Full(session) => Identity::Known(Arc::new(Principal {
                subject: Subject::User(session.user().id.clone()),
                email: session.user().address().cloned().map(Into::into),
                roles: session.user().roles.clone(),
                credential: Credential::Session {
                    id: session.id().clone(),
                    two_factor_verified: session.two_factor_verified,
                    impersonated_by: session.impersonated_by().cloned(),
                },
            })),
        }
    }
}
