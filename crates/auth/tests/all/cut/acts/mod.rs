//! The requests with an effect.

mod accounts;
mod connections;
mod credentials;

use std::pin::Pin;

use http::Method;
use serde_json::Value;

use super::place::Place;
use crate::support::Call;

/// A request with an effect.
pub(super) struct Act {
    pub(super) name: &'static str,
    /// Its method, and the path of its route.
    pub(super) door: &'static str,
    /// Prepares the request, for a new user of an address.
    pub(super) prepare: Prepare,
}

type Prepare = for<'p> fn(&'p Place, &'p str) -> Pin<Box<dyn Future<Output = Call> + 'p>>;

/// All of them. `doors` checks that no route is missing.
pub(super) fn all() -> Vec<Act> {
    let groups = [accounts::access(), accounts::addresses(), accounts::others()];
    let more = [credentials::factors(), credentials::passkeys(), credentials::providers(), credentials::tokens()];
    groups.into_iter().chain(more).chain([connections::tenants(), connections::programs()]).flatten().collect()
}

fn act(name: &'static str, door: &'static str, prepare: Prepare) -> Act {
    Act { name, door, prepare }
}

fn post(path: &str, body: &Value) -> Call {
    Call::post(path).json(body)
}

fn patch(path: &str, body: &Value) -> Call {
    Call::new(Method::PATCH, path).json(body)
}

fn delete(path: &str) -> Call {
    Call::new(Method::DELETE, path)
}
