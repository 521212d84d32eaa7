use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_http::{Problem, Segment, Submission};
use uuid::Uuid;

use super::Flow;
use crate::devices::StoredDevice;
use crate::screens::account::{Account, Browser, Browsers, Owner, PATH, Place, Section, SectionState, Visit, Words};
use crate::web::{Visitor, guarded};

/// The browsers that are known.
pub(crate) struct DevicesSection {
    flow: Arc<Flow>,
}

impl DevicesSection {
    pub(crate) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for DevicesSection {
    fn place(&self) -> Place {
        Place::Devices
    }

    fn anchor(&self) -> &'static str {
        "devices"
    }

    fn heading(&self) -> &'static str {
        "account.devices.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("device-forgotten", "account.devices.forgotten"),
            ("device-gone", "account.devices.gone"),
            ("devices-forgotten", "account.devices.others_forgotten"),
        ]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let listed = self.flow.list(visit.session, visit.headers).await?;
        if listed.devices.is_empty() {
            return Ok(None);
        }
        let words = Words {
            about: Some("account.devices.text"),
            since: "account.devices.since",
            end: "account.devices.forget",
            end_one: "account.devices.forget_one",
            end_others: "account.devices.forget_others",
        };
        let rows = listed.devices.iter().map(|device| row(device, listed.current)).collect();
        Browsers { words, rows, end_others: format!("{PATH}/devices/forget-others") }.show(visit).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let core = &account.core;
        Router::new()
            .route("/account/devices/forget-others", guarded(core, None, post(forget_others)))
            .route("/account/devices/{id}/forget", guarded(core, None, post(forget)))
            .with_state(SectionState::new(self, account))
    }
}

async fn forget(
    State(state): State<SectionState<DevicesSection>>,
    visitor: Visitor,
    owner: Owner,
    Segment(id): Segment,
    _: Submission<()>,
) -> Response {
    let Ok(id) = Uuid::parse_str(&id) else { return state.done("device-gone") };
    match state.section.flow.forget(&owner.0, id, &visitor.client).await {
        Ok(true) => state.done("device-forgotten"),
        Ok(false) => state.done("device-gone"),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}

async fn forget_others(
    State(state): State<SectionState<DevicesSection>>,
    visitor: Visitor,
    owner: Owner,
    _: Submission<()>,
) -> Response {
    match state.section.flow.forget_others(&owner.0, &visitor.headers, &visitor.client).await {
        Ok(()) => state.done("devices-forgotten"),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}

fn row(device: &StoredDevice, current: Option<Uuid>) -> Browser {
    let forget = format!("{PATH}/devices/{}/forget", device.id);
    Browser::new(&device.client, device.first_used_at, device.last_used_at, current == Some(device.id), forget)
}
