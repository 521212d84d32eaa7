use std::sync::Arc;

use ::http::HeaderMap;
use gatewright_db::Error;
use gatewright_http::Problem;
use uuid::Uuid;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::devices::{StoredDevice, current};
use crate::problem;
use crate::session::{Client, Session};

/// Looking at one's known devices, and forgetting them.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
}

/// The devices cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the known devices cannot be used: {0}")]
pub(crate) struct DevicesError(#[from] Error);

/// The devices of an account.
pub(crate) struct Listed {
    /// The latest used first.
    pub(crate) devices: Vec<StoredDevice>,
    /// The one that asks.
    pub(crate) current: Option<Uuid>,
}

impl Flow {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// The caller's devices.
    pub(crate) async fn list(&self, caller: &Session, headers: &HeaderMap) -> Result<Listed, DevicesError> {
        let Some(devices) = &self.core.devices else { return Ok(Listed { devices: Vec::new(), current: None }) };
        let user = &caller.user().id;
        Ok(Listed { devices: devices.list(user).await?, current: current(&self.core, user, headers).await })
    }

    /// Forgets one device of the caller; `false` if it is not theirs. Its sessions stay valid.
    pub(crate) async fn forget(&self, caller: &Session, id: Uuid, client: &Client) -> Result<bool, DevicesError> {
        let Some(devices) = &self.core.devices else { return Ok(false) };
        let forgotten = devices.forget(&caller.user().id, id).await?;
        if forgotten {
            self.audit(caller, client, "device", id.to_string()).await;
        }
        Ok(forgotten)
    }

    /// Forgets the caller's devices except for the one that asks.
    pub(crate) async fn forget_others(
        &self,
        caller: &Session,
        headers: &HeaderMap,
        client: &Client,
    ) -> Result<(), DevicesError> {
        let Some(devices) = &self.core.devices else { return Ok(()) };
        let user = &caller.user().id;
        let forgotten = devices.forget_all(user, current(&self.core, user, headers).await).await?;
        // Repeated requests must not fill the audit log.
        if forgotten > 0 {
            self.audit(caller, client, "devices", forgotten.to_string()).await;
        }
        Ok(())
    }

    async fn audit(&self, caller: &Session, client: &Client, name: &'static str, value: String) {
        let event = self.core.audit.event(AuditKind::DeviceForgotten).user(&caller.user().id);
        self.core.audit.record(event.remote(client.address()).with(name, value)).await;
    }
}

impl From<DevicesError> for Problem {
    fn from(error: DevicesError) -> Self {
        problem::store_failed(&error)
    }
}
