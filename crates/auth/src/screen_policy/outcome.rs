use gatewright_base::{Credential, Identity};
use gatewright_http::{Next, Problem};
use http::{Method, StatusCode};

use super::{Demand, ScreenPolicy, Target};
use crate::problem::{no_session, second_factor_required};
use crate::screens::paths::{login_as_other, with_next};

/// The outcome for a request.
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
            // A grant is limited by scopes that its user chose; a role would bypass them.
            Self::AnyRole(roles) => {
                !matches!(principal.credential, Credential::Grant(_))
                    && roles.iter().any(|role| principal.roles.contains(role))
            }
        }
    }
}

impl ScreenPolicy {
    /// The rule. `path` is the requested path with its query.
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
                // The redirect back is a GET, so it is only useful if the original request was one.
                let back = matches!(*method, Method::GET | Method::HEAD).then(|| Next::parse(path)).flatten();
                // Otherwise a signed-in caller would be redirected back at once, in an endless loop.
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
            (None, Identity::Pending(_), _) => second_factor_required(),
            (None, _, Demand::Session) => no_session(),
            (None, _, Demand::AnyRole(_)) => Problem::forbidden("forbidden"),
        }
    }
}
