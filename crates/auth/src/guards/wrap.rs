use axum::extract::{OriginalUri, Request};
use gatewright_base::{Identity, Principal};
use gatewright_http::Problem;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, answer};
use http::Method;

use crate::problem::{no_session, second_factor_owed};

/// What one of the guards does with requests.
#[derive(Debug, Clone)]
pub struct Guarded<G>(pub(super) G);

/// Decides about one request.
pub(super) trait Guard {
    fn check(&self, call: &Call<'_>) -> Result<(), Problem>;
}

/// What a guard looks at.
pub(super) struct Call<'a> {
    pub(super) identity: &'a Identity,
    pub(super) method: &'a Method,
    /// The path as the caller sent it, whatever routers have taken off it since.
    pub(super) path: &'a str,
}

impl<G: Guard> Middleware for Guarded<G> {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let extensions = request.extensions();
        let original = extensions.get::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
        let call = Call {
            identity: extensions.get().unwrap_or(&Identity::Anonymous),
            method: request.method(),
            path: original.path(),
        };
        match self.0.check(&call) {
            Ok(()) => inner.pass(request),
            Err(problem) => answer(async move { problem.answer(request.headers()) }),
        }
    }
}

impl Call<'_> {
    /// Somebody known: nobody is 401, and who owes a second factor 403.
    pub(super) fn somebody(&self) -> Result<&Principal, Problem> {
        match self.identity {
            Identity::Known(principal) => Ok(principal),
            Identity::Pending(_) => Err(second_factor_owed()),
            Identity::Anonymous => Err(no_session()),
        }
    }
}

/// 403: the credential is not for this.
pub(super) fn out_of_scope(resource: &str, verb: &str) -> Problem {
    let detail = format!("the token lacks the scope {resource}:{verb}");
    Problem::out_of_scope(detail, resource, verb).with_code("insufficient_scope")
}
