use tokio_util::sync::CancellationToken;

use super::Outbox;
use super::deliveries::Deliveries;
use super::outage::Outage;
use super::transition::Policy;

/// State that a relay's tasks share.
pub(super) struct Context {
    pub(super) outbox: Outbox,
    pub(super) deliveries: Deliveries,
    pub(super) policy: Policy,
    pub(super) outage: Outage,
    pub(super) stop: CancellationToken,
}

impl Context {
    pub(super) fn chance(&self) -> u64 {
        u64::from_le_bytes(self.outbox.0.ambient.bytes())
    }
}
