use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gatewright_base::Ambient;
use tokio_util::sync::CancellationToken;

use super::{FanoutError, FanoutOptions};

/// The counters of a connection since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FanoutCounts {
    /// Events of this process that the backend has accepted.
    pub sent: u64,
    /// Events of this process that were not sent: dropped while the backend was unavailable, or not supported by it.
    pub lost: u64,
    /// Events of other replicas that were published here.
    pub received: u64,
    /// Events of other replicas that were lost.
    pub missed: u64,
    /// Duplicate events of other replicas, which were ignored.
    pub repeated: u64,
    /// Messages that were not events.
    pub malformed: u64,
    /// How often the connection to the backend was lost.
    pub outages: u64,
}

/// State that both directions share.
pub(super) struct Shared {
    pub(super) name: &'static str,
    pub(super) options: FanoutOptions,
    pub(super) ambient: Ambient,
    pub(super) stop: CancellationToken,
    /// The bytes of this process's probe.
    pub(super) probe: bytes::Bytes,
    pub(super) counters: Counters,
    pub(super) receives: Direction,
    pub(super) sends: Direction,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) sent: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) missed: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) outages: AtomicU64,
}

/// The state of one direction. A failure is logged once when it begins and once when it ends.
pub(super) struct Direction {
    what: &'static str,
    up: AtomicBool,
    is_reported: AtomicBool,
}

impl Direction {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, up: AtomicBool::new(false), is_reported: AtomicBool::new(false) }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }
}

impl Shared {
    pub(super) fn works(&self, direction: &Direction) {
        if direction.is_reported.swap(false, Ordering::Relaxed) {
            let (backend, direction) = (self.name, direction.what);
            tracing::info!(backend, direction, "fan-out works again; events of the interruption may be missing");
        }
        // After logging, so that an observer of the state finds the log line.
        direction.up.store(true, Ordering::Relaxed);
    }

    pub(super) fn fails(&self, direction: &Direction, error: &FanoutError) {
        if direction.up.swap(false, Ordering::Relaxed) {
            count(&self.counters.outages, 1);
        }
        if !direction.is_reported.swap(true, Ordering::Relaxed) {
            let (backend, direction) = (self.name, direction.what);
            tracing::error!(backend, direction, %error, "fan-out failed; retrying");
        }
    }

    /// The pause after this many failures in a row.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        self.options.backoff.wait(failures, u64::from_le_bytes(self.ambient.bytes()))
    }

    /// Waits for an operation of the backend, at most for the timeout.
    pub(super) async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, FanoutError>>,
    ) -> Result<T, FanoutError> {
        let late = |_| Err(FanoutError::new("it did not answer in time"));
        tokio::time::timeout(self.options.timeout, work).await.unwrap_or_else(late)
    }
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
