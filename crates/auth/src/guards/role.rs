use gatewright_base::{Credential, Roles};
use gatewright_http::Problem;
use gatewright_http::layers::Wrapped;
use tower::Layer;

use super::wrap::{Call, Guard, Guarded};

/// Guards routes: callers with a session, a JWT or an API token pass if their account has one of the named roles now.
/// Other callers get 403, anonymous ones 401. An embedded surface's grant gets 403 in any case, because its user's
/// roles are not part of the grant.
#[derive(Debug, Clone)]
pub struct RoleGuard {
    roles: Roles,
}

impl RoleGuard {
    /// Requires one of `roles`. Without any, no caller passes.
    pub fn any_of<S: Into<String>>(roles: impl IntoIterator<Item = S>) -> Self {
        Self { roles: roles.into_iter().collect() }
    }
}

impl Guard for RoleGuard {
    fn check(&self, call: &Call<'_>) -> Result<(), Problem> {
        let principal = call.principal()?;
        if matches!(principal.credential, Credential::Grant(_)) {
            return Err(Problem::forbidden("an embedded surface cannot do this"));
        }
        let held = self.roles.iter().any(|role| principal.roles.contains(role));
        if held { Ok(()) } else { Err(Problem::forbidden("forbidden")) }
    }
}

impl<S> Layer<S> for RoleGuard {
    type Service = Wrapped<S, Guarded<Self>>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, Guarded(self.clone()))
    }
}
