use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gatewright_base::Ambient;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::shared::{Counters, Direction, Shared};
use super::{Fanout, FanoutCounts, FanoutOptions, inbound, outbound};
use crate::Bus;
use crate::bus::Drops;

/// Connects `bus` to the other replicas over `backend`, until the returned value is dropped. Needs a Tokio runtime.
/// Call it once for a bus, or events arrive twice.
///
/// It does not wait: an unavailable backend is retried.
pub fn attach(bus: &Bus, backend: Arc<dyn Fanout>, ambient: Ambient, options: FanoutOptions) -> Attached {
    let egress = bus.egress(options.bound);
    let dropped = egress.drops();
    let shared = Arc::new(Shared {
        name: backend.name(),
        options,
        ambient,
        stop: CancellationToken::new(),
        probe: [inbound::PROBE, bus.origin().as_bytes()].concat().into(),
        counters: Counters::default(),
        receives: Direction::new("hearing"),
        sends: Direction::new("telling"),
    });
    let inbound = tokio::spawn(inbound::run(bus.clone(), backend.clone(), shared.clone())).abort_handle();
    let outbound = tokio::spawn(outbound::run(egress, backend, shared.clone()));
    Attached { status: FanoutStatus { shared, dropped }, inbound, outbound }
}

/// A bus's connection to the other replicas. Dropping it closes the connection.
#[must_use = "dropping it disconnects it from the other replicas"]
pub struct Attached {
    status: FanoutStatus,
    inbound: AbortHandle,
    outbound: JoinHandle<()>,
}

/// The status of a bus's connection to the other replicas. Cheap to clone. It does not keep the connection open.
#[derive(Clone)]
pub struct FanoutStatus {
    shared: Arc<Shared>,
    dropped: Drops,
}

impl Attached {
    /// The status.
    pub fn status(&self) -> &FanoutStatus {
        &self.status
    }

    /// Sends the remaining events, for at most `within`, and closes the connection.
    pub async fn stop(mut self, within: Duration) {
        self.status.shared.stop.cancel();
        if tokio::time::timeout(within, &mut self.outbound).await.is_err() {
            tracing::warn!("the last events did not reach the other replicas in time");
        }
    }
}

impl FanoutStatus {
    /// Whether this process receives from the other replicas and sends to them.
    pub fn is_up(&self) -> bool {
        self.shared.receives.is_up() && self.shared.sends.is_up()
    }

    /// The backend's name.
    pub fn backend(&self) -> &'static str {
        self.shared.name
    }

    /// The counters so far.
    pub fn counts(&self) -> FanoutCounts {
        let counters = &self.shared.counters;
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        FanoutCounts {
            sent: load(&counters.sent),
            lost: load(&counters.refused) + self.dropped.count(),
            received: load(&counters.received),
            missed: load(&counters.missed),
            repeated: load(&counters.repeated),
            malformed: load(&counters.malformed),
            outages: load(&counters.outages),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.inbound.abort();
        self.outbound.abort();
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attached").field(&self.status).finish()
    }
}

impl fmt::Debug for FanoutStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FanoutStatus");
        shown.field("backend", &self.shared.name).field("up", &self.is_up()).finish_non_exhaustive()
    }
}
