use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_base::{JsonCase, RolePermissions, TokenId, canonical_id, time};
use gatewright_events::outbox::pull::{LONGEST_DELAY, LONGEST_WAIT, MAX_EVENTS, PullError, Receipt};
use gatewright_events::outbox::{Event, Pulls};
use gatewright_http::{Caller, JsonBody, Problem, Query, Segment, layers};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::access::admit;
use crate::Config;

/// The default number of events in an answer.
const LIMIT: usize = 100;
/// How much earlier than a request's deadline a pull that waits is answered.
const MARGIN: Duration = Duration::from_secs(2);
/// When to retry after a refusal.
const RETRY: Duration = Duration::from_secs(1);

struct Surface {
    pulls: Pulls,
    roles: RolePermissions,
    case: JsonCase,
    /// The longest wait that ends before a request's deadline.
    longest_wait: Duration,
}

/// `GET /consumers/{name}/events`, and the routes to acknowledge and refuse. Mount it where requests have an identity.
pub(crate) fn routes(config: &Config, pulls: &Pulls, roles: &RolePermissions) -> Router {
    let surface = Surface {
        pulls: pulls.clone(),
        roles: roles.clone(),
        case: config.server.json_case,
        longest_wait: config.server.request_timeout.saturating_sub(MARGIN).min(LONGEST_WAIT),
    };
    let events = layers::get_with_effect(events);
    let acknowledge = post(acknowledge).fallback(layers::method_not_allowed);
    let refuse = post(refuse).fallback(layers::method_not_allowed);
    Router::new()
        .route("/consumers/{name}/events", events)
        .route("/consumers/{name}/ack", acknowledge)
        .route("/consumers/{name}/nack", refuse)
        .with_state(Arc::new(surface))
}

#[derive(Deserialize)]
struct Asked {
    limit: Option<usize>,
    wait: Option<u64>,
}

#[derive(Serialize)]
struct PulledEventBody<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: String,
    data: Option<Box<RawValue>>,
    attempt: u32,
}

async fn events(
    State(surface): State<Arc<Surface>>,
    Caller(identity): Caller,
    Segment(name): Segment,
    query: Result<Query<Asked>, Response>,
) -> Result<Response, Response> {
    let token = admit(&identity, &surface.roles, &name).map_err(IntoResponse::into_response)?;
    let Query(Asked { limit, wait }) = query?;
    surface.pull(&name, &token, limit, wait).await.map_err(IntoResponse::into_response)
}

impl Surface {
    async fn pull(
        &self,
        name: &str,
        token: &TokenId,
        limit: Option<usize>,
        wait: Option<u64>,
    ) -> Result<Response, Problem> {
        let limit = limit.unwrap_or(LIMIT);
        if !(1..=MAX_EVENTS).contains(&limit) {
            let detail = format!("the query parameter limit must be between 1 and {MAX_EVENTS}");
            return Err(Problem::bad_request(detail));
        }
        let wait = Duration::from_secs(wait.unwrap_or(0));
        if wait > LONGEST_WAIT {
            let detail = format!("the query parameter wait must be at most {} seconds", LONGEST_WAIT.as_secs());
            return Err(Problem::bad_request(detail));
        }
        let events = self.pulls.pull(name, token, limit, wait.min(self.longest_wait)).await.map_err(problem)?;
        let has_previous = self.pulls.consumers().any(|consumer| consumer.name() == name && consumer.has_previous());
        let data = |event: &Event| {
            let json = if has_previous { event.json_with_previous() } else { Cow::Borrowed(event.json()) };
            serde_json::from_str::<Box<RawValue>>(&json).ok()
        };
        let bodies: Vec<PulledEventBody<'_>> = events
            .iter()
            .map(|event| PulledEventBody {
                id: event.id(),
                event_type: event.event_type(),
                timestamp: time::format(event.created_at()),
                data: data(event),
                attempt: event.attempt(),
            })
            .collect();
        let mut body = b"{\"events\":".to_vec();
        serde_json::to_writer(&mut body, &bodies).map_err(|error| Problem::internal(&error))?;
        let lease = self.pulls.lease().as_secs().max(1);
        body.extend_from_slice(format!(",\"{}\":{lease}}}", self.case.spell("lease_seconds")).as_bytes());
        let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
        Ok((headers, body).into_response())
    }
}

#[derive(Deserialize)]
struct Answered {
    ids: Vec<Named>,
    #[serde(default)]
    delay_seconds: Option<u64>,
}

/// An event as a caller names it: its id, or its id and the attempt.
#[derive(Deserialize)]
#[serde(untagged, expecting = "each is the id of an event, or an object with its id and attempt")]
enum Named {
    Id(String),
    Attempt { id: String, attempt: u32 },
}

async fn acknowledge(
    State(surface): State<Arc<Surface>>,
    Caller(identity): Caller,
    Segment(name): Segment,
    body: Result<JsonBody<Answered>, Problem>,
) -> Result<Response, Problem> {
    let token = admit(&identity, &surface.roles, &name)?;
    let JsonBody(body) = body?;
    if body.delay_seconds.is_some() {
        return Err(Problem::invalid_field("delaySeconds", "unknown", "belongs to nack"));
    }
    let refused = surface.pulls.acknowledge(&name, &token, &receipts(body.ids)?).await.map_err(problem)?;
    Ok(settled(&refused))
}

async fn refuse(
    State(surface): State<Arc<Surface>>,
    Caller(identity): Caller,
    Segment(name): Segment,
    body: Result<JsonBody<Answered>, Problem>,
) -> Result<Response, Problem> {
    let token = admit(&identity, &surface.roles, &name)?;
    let JsonBody(body) = body?;
    let delay = body.delay_seconds.map(Duration::from_secs);
    if delay.is_some_and(|delay| delay > LONGEST_DELAY) {
        let message = format!("must be at most {}", LONGEST_DELAY.as_secs());
        return Err(Problem::invalid_field(surface.case.spell("delay_seconds"), "too_large", message));
    }
    let refused = surface.pulls.refuse(&name, &token, &receipts(body.ids)?, delay).await.map_err(problem)?;
    Ok(settled(&refused))
}

fn receipts(named: Vec<Named>) -> Result<Vec<Receipt>, Problem> {
    if !(1..=MAX_EVENTS).contains(&named.len()) {
        let message = format!("must have 1 to {MAX_EVENTS} items");
        return Err(Problem::invalid_field("ids", "length", message));
    }
    let receipt = |named| match named {
        Named::Id(id) => Receipt { id: canonical_id(&id).into_owned(), attempt: None },
        Named::Attempt { id, attempt } => Receipt { id: canonical_id(&id).into_owned(), attempt: Some(attempt) },
    };
    let receipts: Vec<Receipt> = named.into_iter().map(receipt).collect();
    // Postgres cannot take this character in text, and no id has it.
    let foreign = receipts.iter().any(|receipt| receipt.id.contains('\0'));
    if foreign { Err(Problem::invalid_field("ids", "invalid", "has an id that no event has")) } else { Ok(receipts) }
}

/// 204, or 409 with the ids that the caller does not hold.
fn settled(refused: &[String]) -> Response {
    if refused.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let body: Value = json!({ "refused": refused });
    let kind = HeaderValue::from_static("application/json");
    (StatusCode::CONFLICT, [(CONTENT_TYPE, kind)], body.to_string()).into_response()
}

fn problem(error: PullError) -> Problem {
    match error {
        PullError::Unknown(_) => Problem::not_found("there is no such consumer"),
        PullError::TooManyWaiting(error) => {
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_waiting", error.to_string());
            problem.retry_after(RETRY)
        }
        PullError::NoMemory => Problem::unavailable(error.to_string(), RETRY).with_code("over_budget"),
        error => {
            tracing::warn!(%error, "the outbox cannot be read for a pull consumer");
            Problem::unavailable("events cannot be read right now", RETRY)
        }
    }
}
