use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use gatewright_base::time;
use gatewright_http::Problem;
use jiff::Timestamp;
use serde_json::Value;

use super::AdminState;
use super::answer::{data, object, unavailable};
use crate::schema;

/// How the deployment does, now and over the last hour.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/health", get(health)).route("/series", get(series)).route("/migrations", get(migrations))
}

/// How long the database may take to give a sign of life.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn health(State(state): State<AdminState>) -> Json<Value> {
    let case = state.config.server.json_case;
    let is_up = matches!(tokio::time::timeout(TIMEOUT, state.db.ping()).await, Ok(Ok(())));
    let streams = state.streams.stats();
    let mail = state.mail.counts();
    let mail = mail.map(|counts| object(case, counts.map(|(name, count)| (name, count.into()))));
    let fanout = state
        .fanout
        .as_ref()
        .map(|fanout| object(case, [("backend", fanout.backend().into()), ("up", fanout.is_up().into())]));
    let now = state.ambient.now();
    data(object(
        case,
        [
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("started_at", time::format(state.started_at).into()),
            ("uptime_seconds", now.duration_since(state.started_at).as_secs().into()),
            ("database", is_up.into()),
            ("engine", format!("{:?}", state.db.engine()).to_lowercase().into()),
            ("fanout", fanout.into()),
            ("streams", streams.subscribers.into()),
            ("streams_refused", streams.refused.into()),
            ("events_dropped", streams.dropped.into()),
            ("mail", mail.into()),
        ],
    ))
}

async fn series(State(state): State<AdminState>) -> Json<Value> {
    let case = state.config.server.json_case;
    let minutes = state.series.minutes().into_iter().map(|minute| {
        let at = Timestamp::from_second(minute.number * 60).unwrap_or(Timestamp::MIN);
        object(
            case,
            [
                ("at", time::format(at).into()),
                ("requests", minute.requests.into()),
                ("errors", minute.errors.into()),
                ("refusals", minute.refusals.into()),
                ("p50_ms", minute.percentile(50).into()),
                ("p95_ms", minute.percentile(95).into()),
                ("streams", minute.streams.into()),
                ("lag_seconds", minute.lag.into()),
            ],
        )
    });
    data(minutes.collect::<Vec<_>>())
}

/// Reads the whole schema, so that one caller at a time may ask.
async fn migrations(State(state): State<AdminState>) -> Result<Json<Value>, Problem> {
    let Ok(_turn) = state.heavy.try_acquire() else {
        return Err(Problem::unavailable("another request for this is in progress; try again", Duration::from_secs(2)));
    };
    let changes = schema::missing(&state.config, &state.db).await.map_err(|error| unavailable(&error))?;
    let (statements, notes) = (changes.statements, changes.notes);
    Ok(data(object(state.config.server.json_case, [("statements", statements.into()), ("notes", notes.into())])))
}
