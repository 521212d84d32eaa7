use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use futures_util::future::{Either, Ready, ready};
use gatewright_base::{Identity, Principal};
use gatewright_http::Problem;
use http::Method;
use tower::Service;

use crate::problem::{no_session, second_factor_owed};

/// A service behind one of the guards.
#[derive(Debug, Clone)]
pub struct Guarded<S, G> {
    pub(super) inner: S,
    pub(super) guard: G,
}

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

impl<S, G> Service<Request> for Guarded<S, G>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    G: Guard,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let extensions = request.extensions();
        let original = extensions.get::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
        let call = Call {
            identity: extensions.get().unwrap_or(&Identity::Anonymous),
            method: request.method(),
            path: original.path(),
        };
        match self.guard.check(&call) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(problem) => Either::Right(ready(Ok(problem.answer(request.headers())))),
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
