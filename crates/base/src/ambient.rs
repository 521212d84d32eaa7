use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use crate::{Clock, ManualClock, OsRng, Rng, SeededRng, SystemClock};

/// The environment of a running program: the time and a source of random bytes.
///
/// Cheap to clone. Everything that needs "now", an id or a secret takes it from here, so that a test can control time
/// and randomness.
#[derive(Clone)]
pub struct Ambient {
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

impl Ambient {
    /// The system's clock and the operating system's random bytes.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(OsRng))
    }

    /// The given clock and randomness.
    pub fn new(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        Self { clock, rng }
    }

    /// A clock that a test moves by hand, and repeatable bytes. Returns the clock as well.
    pub fn manual(start: Timestamp, seed: u64) -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(start));
        (Self::new(clock.clone(), Arc::new(SeededRng::new(seed))), clock)
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// `N` fresh random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.rng.fill(&mut bytes);
        bytes
    }

    /// Fills `bytes` with fresh random bytes.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.rng.fill(bytes);
    }

    /// A new UUID version 7 (RFC 9562, section 5.7): sorts by the millisecond it was made in.
    pub fn uuid(&self) -> Uuid {
        let millis = u64::try_from(self.now().as_millisecond()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &self.bytes()).into_uuid()
    }
}

impl fmt::Debug for Ambient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ambient").finish_non_exhaustive()
    }
}
