use gatewright_base::Permission;
use gatewright_http::Problem;
use gatewright_http::layers::Wrapped;
use tower::Layer;

use super::wrap::{Call, Guard, Guarded, out_of_scope};

/// Guards routes: API tokens and grants pass with a scope that covers the permission, and get 403 otherwise; an empty
/// list covers nothing. Sessions and JWTs have no scopes and pass. Anonymous callers get 401.
#[derive(Debug, Clone)]
pub struct ScopeGuard {
    demand: Permission,
}

impl ScopeGuard {
    /// Requires `resource:verb`, such as `reports:read`.
    pub fn new(demand: Permission) -> Self {
        Self { demand }
    }
}

impl Guard for ScopeGuard {
    fn check(&self, call: &Call<'_>) -> Result<(), Problem> {
        let (resource, verb) = (self.demand.resource(), self.demand.verb());
        if call.principal()?.in_scope(resource, verb) { Ok(()) } else { Err(out_of_scope(resource, verb)) }
    }
}

impl<S> Layer<S> for ScopeGuard {
    type Service = Wrapped<S, Guarded<Self>>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, Guarded(self.clone()))
    }
}
