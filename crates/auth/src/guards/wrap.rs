use axum::extract::{OriginalUri, Request};
use gatewright_base::{Identity, Principal};
use gatewright_http::Problem;
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, answer};
use http::Method;

use crate::problem::{no_session, second_factor_required};

/// The decision of one of the guards about requests.
#[derive(Debug, Clone)]
pub struct Guarded<G>(pub(super) G);

/// Decides about one request.
pub(super) trait Guard {
    fn check(&self, call: &Call<'_>) -> Result<(), Problem>;
}

/// The inputs of a guard.
pub(super) struct Call<'a> {
    pub(super) identity: &'a Identity,
    pub(super) method: &'a Method,
    /// The path that the caller sent, including parts that routers have removed.
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
    /// A signed-in caller: anonymous ones get 401, and those with a pending second factor 403.
    pub(super) fn principal(&self) -> Result<&Principal, Problem> {
        match self.identity {
            Identity::Known(principal) => Ok(principal),
            Identity::Pending(_) => Err(second_factor_required()),
            Identity::Anonymous => Err(no_session()),
        }
    }
}

/// 403: the credential is not for this.
pub(super) fn out_of_scope(resource: &str, verb: &str) -> Problem {
    let detail = format!("the token lacks the scope {resource}:{verb}");
    Problem::out_of_scope(detail, resource, verb).with_code("insufficient_scope")
}
