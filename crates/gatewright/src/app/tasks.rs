use std::sync::Arc;
use std::time::Duration;

use gatewright_events::fanout::Attached;
use gatewright_events::log::Following;
use gatewright_events::outbox::Relay;
use parking_lot::Mutex;

use super::housekeeping::Housekeeper;
use super::limits::Sweeper;

/// The background tasks. The [`App`](super::App) and every clone of its router own them together, and they end with the last
/// owner: a program that keeps only the router still delivers. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<Running>>);

/// The running tasks. Each ends when it is dropped.
#[derive(Default)]
pub(super) struct Running {
    pub(super) relay: Option<Relay>,
    pub(super) fanout: Option<Attached>,
    /// Reads the event log.
    pub(super) following: Option<Following>,
    pub(super) sweeper: Option<Sweeper>,
    pub(super) housekeeper: Option<Housekeeper>,
}

impl Tasks {
    pub(super) fn own(&self, running: Running) {
        *self.0.lock() = running;
    }

    /// Sends the remaining events to the other replicas, and finishes the deliveries that have begun, each for at most
    /// `within`.
    pub(super) async fn stop(&self, within: Duration) {
        let Running { relay, fanout, following, sweeper, housekeeper } = std::mem::take(&mut *self.0.lock());
        drop((following, sweeper, housekeeper));
        if let Some(fanout) = fanout {
            fanout.stop(within).await;
        }
        if let Some(relay) = relay {
            relay.stop(within).await;
        }
    }
}
