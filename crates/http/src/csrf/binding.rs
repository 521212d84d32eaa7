use std::fmt;
use std::sync::Arc;

/// The binding of a CSRF token: one session, or a browser without one.
///
/// The middleware that resolves sessions puts one into the request's extensions before [`Csrf`](super::Csrf) runs.
/// Without one a token is bound only to its cookie. A handler that begins or ends a session may put the new binding
/// into the *answer's* extensions: the cookie then changes with the session, and not only when the next page is shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CsrfBinding(Option<Arc<str>>);

impl CsrfBinding {
    /// The session called `id`. The id need not be secret, but must be different for every session: if a sign-in kept
    /// it, earlier tokens would stay valid.
    pub fn session(id: impl Into<Arc<str>>) -> Self {
        Self(Some(id.into()))
    }

    /// No session.
    pub fn anonymous() -> Self {
        Self(None)
    }

    pub(super) fn session_id(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Debug for CsrfBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "CsrfBinding(session)" } else { "CsrfBinding(anonymous)" })
    }
}
