use std::sync::Arc;

use ::http::StatusCode;
use axum::extract::State;
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_base::{JsonCase, time};
use gatewright_http::{Problem, Segment};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Flow;
use crate::core::Core;
use crate::devices::StoredDevice;
use crate::session::Session;
use crate::web::{Case, Visitor};

/// `GET` and `DELETE /devices`, `DELETE /devices/{id}`.
pub(in crate::plugins) fn routes(core: Arc<Core>) -> Router {
    Router::new()
        .route("/devices", get(list).delete(forget_others))
        .route("/devices/{id}", delete(forget))
        .with_state(Arc::new(Flow::new(core)))
}

async fn list(
    State(flow): State<Arc<Flow>>,
    Case(case): Case,
    visitor: Visitor,
    caller: Session,
) -> Result<Json<Value>, Problem> {
    let listed = flow.list(&caller, &visitor.headers).await?;
    let devices: Vec<_> = listed.devices.iter().map(|device| object(device, listed.current, case)).collect();
    Ok(Json(json!({ "devices": devices })))
}

async fn forget(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    caller: Session,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    let missing = || Problem::not_found("no such device");
    let id = Uuid::parse_str(&id).map_err(|_| missing())?;
    if flow.forget(&caller, id, &visitor.client).await? { Ok(StatusCode::NO_CONTENT) } else { Err(missing()) }
}

async fn forget_others(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    caller: Session,
) -> Result<StatusCode, Problem> {
    flow.forget_others(&caller, &visitor.headers, &visitor.client).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn object(device: &StoredDevice, current: Option<Uuid>, case: JsonCase) -> Map<String, Value> {
    let fields: [(&str, Value); 6] = [
        ("id", device.id.to_string().into()),
        ("first_used_at", time::format(device.first_used_at).into()),
        ("last_used_at", time::format(device.last_used_at).into()),
        ("address", device.client.address().map(|address| address.to_string()).into()),
        ("user_agent", device.client.user_agent().into()),
        ("current", (current == Some(device.id)).into()),
    ];
    fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect()
}
