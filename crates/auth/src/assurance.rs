use jiff::Timestamp;

use crate::session::AnySession;

/// How the caller has authenticated. [`Auth::middleware`](crate::Auth::middleware) puts it into the extensions of
/// requests with a session or a JWT. A request with an API token, or in a session of an operator who acts as a user, has
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assurance {
    /// Whether a second factor was proven in the session, or before the JWT was issued.
    pub second_factor: bool,
    /// When the first factor was proven.
    pub proven_at: Timestamp,
}

impl Assurance {
    /// That of a session in good standing.
    pub(crate) fn of_session(session: &AnySession) -> Option<Self> {
        match session {
            // An operator who acts as a user has proven nothing of the user's.
            AnySession::Full(session) if session.impersonated_by().is_some() => None,
            AnySession::Full(session) => {
                Some(Self { second_factor: session.two_factor_verified(), proven_at: session.started_at() })
            }
            AnySession::Pending(_) => None,
        }
    }
}
