use std::time::Duration;

use gatewright_base::JsonCase;

use super::transition::{Backoff, Policy};

/// How the outbox works. The defaults are the service's own.
#[derive(Debug, Clone)]
pub struct OutboxOptions {
    /// How often the relay looks for work that nobody told it of. 1 second.
    pub poll_interval: Duration,
    /// Failures after which a delivery is dead. 10.
    pub max_attempts: u32,
    /// How long a delivery waits for a handler before it is abandoned, and how old a row is before it is done with.
    /// 15 minutes.
    pub handler_grace: Duration,
    /// How long a claim outlives the relay that made it. It is renewed while a handler runs, so that it may be short.
    /// 1 minute.
    pub lease: Duration,
    /// How long dispatched rows are kept. `None`, the default: for ever.
    pub retention: Option<Duration>,
    /// How long a failed delivery waits.
    pub backoff: Backoff,
    /// Whether the tables are made. If not, they must be there.
    pub create_tables: bool,
    /// How the keys of entity events are spelled.
    pub json_case: JsonCase,
}

impl Default for OutboxOptions {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(1),
            max_attempts: 10,
            handler_grace: Duration::from_mins(15),
            lease: Duration::from_mins(1),
            retention: None,
            backoff: Backoff::default(),
            create_tables: true,
            json_case: JsonCase::default(),
        }
    }
}

impl OutboxOptions {
    /// The same without values that could not work: no wait is shorter than a millisecond, and there is one attempt.
    pub(super) fn sane(self) -> Self {
        let least = Duration::from_millis(1);
        Self {
            poll_interval: self.poll_interval.max(least),
            lease: self.lease.max(least),
            max_attempts: self.max_attempts.max(1),
            ..self
        }
    }

    pub(super) fn policy(&self) -> Policy {
        Policy { max_attempts: self.max_attempts, lease: self.lease, grace: self.handler_grace, backoff: self.backoff }
    }
}
