use jiff::{SignedDuration, Timestamp};
use std::sync::Mutex;

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The computer's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that changes only when a test moves it.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock showing `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Mutex::new(start))
    }

    /// Moves the clock by `step`, which may be negative.
    pub fn advance(&self, step: SignedDuration) {
        let mut now = self.lock();
        *now = now.checked_add(step).expect("a test's clock stays within the calendar");
    }

    /// Puts the clock to `time`.
    pub fn set(&self, time: Timestamp) {
        *self.lock() = time;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Timestamp> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.lock()
    }
}
