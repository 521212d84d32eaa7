use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_auth::Delegated;
use gatewright_base::{Credential, Identity};
use gatewright_entities::Entities;
use gatewright_http::{AllowedOrigins, Caller, ClientAddr, Problem, RawJson, layers};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tower::ServiceExt;

use super::guard::Guard;
use super::missing_scope::MissingScope;
use super::sent::Sent;
use super::server::ToolServer;
use crate::Config;

/// Where the tools are.
pub(crate) const PATH: &str = "/mcp";
/// The longest refusal of the SDK that is passed on.
const LONGEST_REASON: usize = 4_096;

#[derive(Clone)]
struct Surface {
    guard: Guard,
    entities: Entities,
    /// Whether callers without credentials may connect.
    anonymous: bool,
    service: StreamableHttpService<ToolServer, NeverSessionManager>,
}

/// `POST /mcp`. Mount it where requests have an identity.
pub(crate) fn routes(config: &Config, entities: &Entities, allowed: Option<&AllowedOrigins>) -> Router {
    let server = ToolServer::new(entities);
    // The guard checks Host and Origin, because it knows the public address.
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(config.server.max_body_bytes)
        .disable_allowed_hosts();
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), NeverSessionManager::default().into(), settings);
    let anonymous = config.mcp.anonymous || !config.authorization_server.enabled;
    let guard = Guard::new(config, allowed.cloned().unwrap_or_default());
    let surface = Surface { guard, entities: entities.clone(), anonymous, service };
    Router::new().route(PATH, post(message).fallback(other_method)).with_state(surface)
}

async fn message(
    State(surface): State<Surface>,
    Caller(identity): Caller,
    client: ClientAddr,
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    surface.admit(&parts, &identity)?;
    if !accepts(&parts.headers, "application/json") || !accepts(&parts.headers, "text/event-stream") {
        let detail = "accept both application/json and text/event-stream";
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", detail));
    }
    // The SDK wants both by name.
    parts.headers.insert(ACCEPT, http::HeaderValue::from_static("application/json, text/event-stream"));
    let call = surface.entities.call(identity, &parts.headers).from_address(client.ip());
    let call = call.through(gatewright_entities::Surface::Tools);
    parts.extensions.insert(call);
    // A client of the authorization server can get a token with more scopes, if it learns of it by the status.
    let missing = parts.extensions.get::<Delegated>().map(|_| MissingScope::default());
    if let Some(missing) = &missing {
        parts.extensions.insert(missing.clone());
    }
    let RawJson(bytes) = RawJson::from_request(Request::from_parts(parts.clone(), body), &()).await?;
    parts.headers.remove(CONTENT_LENGTH);
    parts.extensions.insert(Sent::new(bytes.clone()));
    let request = http::Request::from_parts(parts, Full::new(bytes));
    let answer = surface.service.oneshot(request).await.unwrap_or_else(|never| match never {});
    if let Some(problem) = missing.and_then(|missing| missing.noted()) {
        return Err(problem);
    }
    Ok(as_problem(answer.map(Body::new)).await)
}

/// The protocol's streams and sessions are not offered. A client that begins with GET still gets the challenge.
async fn other_method(
    State(surface): State<Surface>,
    Caller(identity): Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    if parts.method == Method::GET {
        surface.admit(&parts, &identity)?;
    }
    Ok(layers::method_not_allowed().await.into_response())
}

impl Surface {
    /// Refuses requests of other sites, and callers who may not connect.
    fn admit(&self, parts: &Parts, identity: &Identity) -> Result<(), Problem> {
        let is_anonymous = matches!(identity, Identity::Anonymous);
        self.guard.check(parts, !(is_anonymous && self.anonymous))?;
        may_connect(identity)?;
        if !self.anonymous && is_anonymous {
            // The challenge says where to get a token.
            return Err(Problem::unauthorized("authentication is required"));
        }
        Ok(())
    }
}

/// The refusal of callers who may call nothing: those with a pending second factor, and delegated grants of an embedded
/// surface.
fn may_connect(identity: &Identity) -> Result<(), Problem> {
    match identity {
        Identity::Pending(_) => {
            Err(Problem::forbidden("two-factor verification required").with_code("two_factor_required"))
        }
        Identity::Known(principal) if matches!(principal.credential, Credential::Grant(_)) => {
            Err(Problem::forbidden("delegated grants are not accepted here"))
        }
        Identity::Known(_) | Identity::Anonymous => Ok(()),
    }
}

fn accepts(headers: &http::HeaderMap, wanted: &str) -> bool {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let kinds = lines.flat_map(|line| line.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.map(str::trim).any(|kind| {
        let family = wanted.split('/').next().unwrap_or_default();
        kind == "*/*" || kind.eq_ignore_ascii_case(wanted) || kind.eq_ignore_ascii_case(&format!("{family}/*"))
    })
}

/// The SDK refuses an invalid message in plain text; the rest of this server does so as a problem.
async fn as_problem(answer: Response) -> Response {
    let status = answer.status();
    let is_json =
        answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        let mut answer = answer;
        answer.headers_mut().insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
        return answer;
    }
    let reason = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let reason = String::from_utf8_lossy(&reason[..reason.len().min(LONGEST_REASON)]).into_owned();
    if status.is_server_error() {
        tracing::error!(%status, reason, "the tool surface failed");
        return Problem::of(StatusCode::INTERNAL_SERVER_ERROR).into_response();
    }
    // The SDK reports JSON that is not a message of the protocol as an unsupported type.
    Problem::bad_request(reason).into_response()
}
