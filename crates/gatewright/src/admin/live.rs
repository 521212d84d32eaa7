use std::future::ready;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gatewright_base::{Presented, Unavailable};
use gatewright_events::EntityEvent;
use gatewright_events::sse::{Params, Subscribe, Verdict, Visibility};
use gatewright_http::{ClientAddr, Problem, Segment};
use http::{Extensions, HeaderMap};

use super::AdminState;
use super::gate::{Operator, still_administers};
use super::records::entity;

/// The writes to an entity as they happen, of every owner and tenant.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/events/{entity}", get(follow))
}

async fn follow(
    State(state): State<AdminState>,
    operator: Operator,
    Segment(name): Segment,
    RawQuery(query): RawQuery,
    client: ClientAddr,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let plan = entity(&state, &name)?.plan();
    let params = Params::read(query.as_deref(), &headers);
    let presented = extensions.get::<Presented>().cloned();
    let recheck_state = state.clone();
    let request = Subscribe::new(plan.table(), operator.identity, params, shown)
        .from_client(client.into())
        .admitted(|events: Vec<Arc<EntityEvent>>| ready(Ok(Some(vec![Visibility::Shown; events.len()]))))
        .rechecked(move || again(recheck_state.clone(), presented.clone()));
    Ok(state.streams.respond(request)?.into_response())
}

fn shown(_: &EntityEvent) -> Visibility {
    Visibility::Shown
}

/// Whether the caller may still administer. A credential that cannot be checked again ends the stream.
async fn again(state: AdminState, presented: Option<Presented>) -> Result<Verdict, Unavailable> {
    let Some(Presented(credentials)) = presented else { return Ok(Verdict::End) };
    let now = credentials.again().await?;
    if still_administers(&state, &now).await? { Ok(Verdict::Continue(Arc::new(shown))) } else { Ok(Verdict::End) }
}
