use std::sync::{Arc, OnceLock};

use gatewright_http::Problem;
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;

/// Stores the refusal of a call whose token lacks a scope.
#[derive(Clone, Default)]
pub(super) struct MissingScope(Arc<OnceLock<Problem>>);

impl MissingScope {
    /// The refusal that was noted.
    pub(super) fn noted(&self) -> Option<Problem> {
        self.0.get().cloned()
    }

    /// Stores a refusal if its reason is a missing scope.
    pub(super) fn note(&self, problem: &Problem) {
        if problem.status() == StatusCode::FORBIDDEN && problem.headers().contains_key(WWW_AUTHENTICATE) {
            // One message asks for one thing.
            let _noted_before = self.0.set(problem.clone());
        }
    }
}
