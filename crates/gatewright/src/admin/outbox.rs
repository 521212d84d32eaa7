use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::{JsonCase, time};
use gatewright_events::outbox::{DeliveryRecord, DeliveryStatus, ListDeliveries, Outbox, ReplayError};
use gatewright_http::{JsonBody, Problem, Query, Segment};
use http::StatusCode;
use serde_json::Value;

use super::AdminState;
use super::answer::{data, database, limit, moment, noted, object, page, unavailable};

/// Consumers with their lag, deliveries with their errors, and another try.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/outbox", get(consumers))
        .route("/outbox/deliveries", get(deliveries))
        .route("/outbox/events/{id}", get(event))
        .route("/outbox/events/{id}/replay", post(replay))
}

async fn consumers(State(state): State<AdminState>) -> Result<Json<Value>, Problem> {
    let outbox = outbox(&state)?;
    let unsettled = outbox.unsettled().await.map_err(database)?;
    let lag = outbox.lag_seconds().await.map_err(database)?;
    let counts = outbox.counts();
    let names: std::collections::BTreeSet<&String> = counts.consumers.keys().chain(unsettled.keys()).collect();
    let rows = names.into_iter().map(|name| {
        let waiting = |status: &str| unsettled.get(name).and_then(|found| found.get(status)).copied().unwrap_or(0);
        let counted = counts.consumers.get(name).copied().unwrap_or_default();
        object(
            state.config.server.json_case,
            [
                ("name", name.as_str().into()),
                ("declared", counts.consumers.contains_key(name).into()),
                ("pending", waiting("pending").into()),
                ("dead", waiting("dead").into()),
                ("abandoned", waiting("abandoned").into()),
                ("lag_seconds", lag.get(name).copied().unwrap_or(0).into()),
                ("delivered", counted.delivered.into()),
                ("failed", counted.failed.into()),
            ],
        )
    });
    Ok(data(rows.collect::<Vec<_>>()))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    status: Option<String>,
    consumer: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

async fn deliveries(State(state): State<AdminState>, Query(listing): Query<Listing>) -> Result<Json<Value>, Problem> {
    let status = match listing.status.as_deref() {
        None | Some("" | "failing") => None,
        Some(word) => Some(
            DeliveryStatus::parse(word)
                .ok_or_else(|| Problem::bad_request("status is failing, pending, dispatched, dead or abandoned"))?,
        ),
    };
    // A consumer's name has no slash, and a row's id is a UUID.
    let after =
        listing.cursor.as_deref().map(|cursor| cursor.split_once('/').ok_or_else(invalid_cursor)).transpose()?;
    let list = ListDeliveries {
        status,
        consumer: listing.consumer.filter(|name| !name.is_empty()),
        after: after.map(|(row, consumer)| (row.to_owned(), consumer.to_owned())),
        limit: limit(listing.limit),
    };
    let found = outbox(&state)?.list_unsettled(&list).await.map_err(database)?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == list.limit);
    let cursor = found.last().filter(|_| is_full).map(|last| format!("{}/{}", last.row_id, last.consumer));
    Ok(page(found.iter().map(|delivery| shown(delivery, state.config.server.json_case)).collect(), cursor))
}

async fn event(State(state): State<AdminState>, Segment(id): Segment) -> Result<Json<Value>, Problem> {
    let found = outbox(&state)?.list_deliveries(&id).await.map_err(database)?;
    let found = found.ok_or_else(|| Problem::not_found("no such event"))?;
    Ok(data(found.iter().map(|delivery| shown(delivery, state.config.server.json_case)).collect::<Vec<_>>()))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    consumer: Option<String>,
}

async fn replay(
    State(state): State<AdminState>,
    Segment(id): Segment,
    JsonBody(body): JsonBody<Replay>,
) -> Result<Response, Problem> {
    let outbox = outbox(&state)?;
    let replayed = match &body.consumer {
        Some(consumer) => outbox.replay_consumer(&id, consumer).await,
        None => outbox.replay(&id).await,
    };
    let replayed = replayed.map_err(|error| match error {
        ReplayError::NoRow(_) | ReplayError::NoDelivery { .. } => Problem::not_found(error.to_string()),
        error => unavailable(&error),
    })?;
    let answer = data(object(state.config.server.json_case, [("replayed", replayed.into())]));
    Ok(noted((StatusCode::OK, answer), [("replayed", replayed.into()), ("consumer", body.consumer.into())]))
}

fn outbox(state: &AdminState) -> Result<&Outbox, Problem> {
    state.outbox.as_ref().ok_or_else(|| Problem::not_found("the outbox is off; set `outbox.enabled = true`"))
}

fn invalid_cursor() -> Problem {
    Problem::bad_request("invalid cursor for this list")
}

fn shown(delivery: &DeliveryRecord, case: JsonCase) -> Value {
    object(
        case,
        [
            ("event_id", delivery.row_id.as_str().into()),
            ("consumer", delivery.consumer.as_str().into()),
            ("status", delivery.status.as_str().into()),
            ("attempts", delivery.attempts.into()),
            ("last_error", delivery.last_error.as_deref().into()),
            ("created_at", time::format(delivery.created_at).into()),
            ("next_attempt_at", moment(delivery.next_attempt_at)),
            ("dispatched_at", moment(delivery.dispatched_at)),
        ],
    )
}
