use gatewright_events::{Bus, EntityEvent, Receipts};

/// Passes a transaction's events to the bus, and returns the receipts to the writer that waits for them.
#[derive(Debug, Clone)]
pub(super) struct Commit(Option<(Bus, Receipts)>);

impl Commit {
    pub(super) fn new(bus: Option<&Bus>) -> Self {
        Self(bus.map(|bus| (bus.clone(), Receipts::default())))
    }

    pub(super) fn announce(&self, events: Vec<EntityEvent>) {
        if let Some((bus, receipts)) = &self.0 {
            receipts.add(bus.publish_all(events));
        }
    }

    /// Waits for the streams that require writers to wait for them.
    pub(super) async fn wait(self) {
        if let Some((_, receipts)) = self.0
            && !receipts.wait().await
        {
            tracing::debug!("a blocking stream had no room for an event in time and lost its oldest");
        }
    }
}
