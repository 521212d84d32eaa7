use gatewright_base::{Credential, Identity};
use gatewright_http::{Next, Problem};
use http::{Method, StatusCode};

use super::{Demand, ScreenPolicy, Target};
use crate::problem::{no_session, second_factor_owed};
use crate::screens::paths::{login_as_other, with_next};

/// What becomes of a request.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Allow,
    RenderAlt,
    Redirect(String),
    Block(Problem),
}

impl Demand {
    fn is_met(&self, identity: &Identity) -> bool {
        let Some(principal) = identity.principal() else { return false };
        match self {
            Self::Session => matches!(principal.credential, Credential::Session { .. }),
            // A grant is bounded by scopes that its user chose; a role would lift it out of them.
            Self::AnyRole(roles) => {
                !matches!(principal.credential, Credential::Grant(_))
                    && roles.iter().any(|role| principal.roles.contains(role))
            }
        }
    }
}

impl ScreenPolicy {
    /// The rule. `path` is what was asked for, with its query.
    pub(super) fn outcome(&self, identity: &Identity, method: &Method, path: &str) -> Outcome {
        if self.demand.is_met(identity) {
            return Outcome::Allow;
        }
        if self.alternative.is_some() {
            return Outcome::RenderAlt;
        }
        match &self.redirect {
            Some(Target::To(url)) => Outcome::Redirect(url.clone()),
            Some(Target::Login) => {
                // Coming back is a GET, so that it leads nowhere where something else was asked for.
                let back = matches!(*method, Method::GET | Method::HEAD).then(|| Next::parse(path)).flatten();
                // Who is signed in would be sent back from there at once, and from here again.
                let signed_in = identity.principal().is_some();
                Outcome::Redirect(if signed_in {
                    login_as_other(back.as_ref())
                } else {
                    with_next("/login", back.as_ref())
                })
            }
            None => Outcome::Block(self.refusal(identity)),
        }
    }

    fn refusal(&self, identity: &Identity) -> Problem {
        match (self.block, identity, &self.demand) {
            (Some(StatusCode::FORBIDDEN), ..) => Problem::forbidden("forbidden"),
            (Some(status), ..) => Problem::of(status),
            (None, Identity::Pending(_), _) => second_factor_owed(),
            (None, _, Demand::Session) => no_session(),
            (None, _, Demand::AnyRole(_)) => Problem::forbidden("forbidden"),
        }
    }
}
