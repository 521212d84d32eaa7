//! The layers that every request passes before it is routed.
//!
//! [`standard`] puts an [`EnvelopeLayer`] around a router: an id outermost, so that every log line and answer has it;
//! headers next, so that failures have them too; then the panic handler, the deadline, the body limit and, innermost,
//! the routes with their fallbacks. The other functions are for single routes, by `axum::middleware::from_fn`. The
//! layers of this crate implement [`Middleware`]: one function instead of a hand-written service.

mod answers;
mod body_limit;
mod budgeted;
mod deadline;
mod envelope;
mod fallback;
mod headers;
mod middleware;
mod panic;
mod ready;
mod remainder;
mod request_id;

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::Route;
use tower::{Layer, Service};

pub use answers::{AnswerBudgetLayer, CallerNote};
pub use body_limit::{BodyLimit, body_limit};
pub use deadline::Deadline;
pub use envelope::EnvelopeLayer;
pub use fallback::{get_with_effect, method_not_allowed, not_found};
pub use headers::{NoStoreLayer, security_headers};
pub use middleware::{Answer, Inner, Middleware, RouteService, Taken, Wrapped, answer};
use ready::take_ready;
pub use request_id::RequestId;

/// Puts the envelope around `router`, and adds the two fallbacks to it. A program's own layers may go around the
/// envelope: pass a `ServiceBuilder` whose innermost layer is the envelope, so that the router has only one layer.
pub fn standard<S, L>(router: Router<S>, envelope: L) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
    L: Layer<Route> + Clone + Send + Sync + 'static,
    L::Service: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
    <L::Service as Service<Request>>::Response: IntoResponse + 'static,
    <L::Service as Service<Request>>::Future: Send + 'static,
{
    router.fallback(not_found).method_not_allowed_fallback(method_not_allowed).layer(envelope)
}

/// The default value of `Retry-After`.
const RETRY_SOON: Duration = Duration::from_secs(1);
