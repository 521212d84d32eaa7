use std::time::Duration;

use crate::bus::Bound;
use crate::outbox::Backoff;

/// The options of a connection to a backend.
#[derive(Debug, Clone)]
pub struct FanoutOptions {
    /// The limit of the queue while the backend is slow or unavailable.
    pub bound: Bound,
    /// How long sending a batch, or beginning to listen, may take.
    pub timeout: Duration,
    /// How often a probe is sent. A channel without any message for three times as long is opened again.
    pub probe: Duration,
    /// The pauses between tries.
    pub backoff: Backoff,
    /// How often old rows are removed.
    pub sweep: Duration,
}

impl Default for FanoutOptions {
    /// 65,536 events or 64 MiB; 5 seconds; a probe every 5 seconds; pauses of 100 milliseconds to 5 seconds; a sweep
    /// every minute.
    fn default() -> Self {
        Self {
            bound: Bound::default(),
            timeout: Duration::from_secs(5),
            probe: Duration::from_secs(5),
            backoff: Backoff { first: Duration::from_millis(100), cap: Duration::from_secs(5) },
            sweep: Duration::from_mins(1),
        }
    }
}
