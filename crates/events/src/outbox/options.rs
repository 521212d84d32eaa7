use std::collections::BTreeSet;
use std::time::Duration;

use gatewright_base::{Budget, JsonCase};

use super::transition::{Backoff, Policy};

/// The options of the outbox. The defaults are those of the server.
#[derive(Debug, Clone)]
pub struct OutboxOptions {
    /// How often the relay polls for work without a notification. Default: 1 second.
    pub poll_interval: Duration,
    /// The failures after which a delivery is dead. Default: 10.
    pub max_attempts: u32,
    /// How long a delivery waits for a handler before it is abandoned, and the least age of a row before it counts as
    /// dispatched. Default: 15 minutes.
    pub handler_grace: Duration,
    /// The lease of a claim. It is renewed while a handler runs, so it can be short. Default: 1 minute.
    pub lease: Duration,
    /// How long dispatched rows are kept. `None`, the default: without limit.
    pub retention: Option<Duration>,
    /// The most bytes of all rows; 0: no limit. From half of it on, delivered rows are removed whatever `retention`, and one
    /// caller may add only a part of it. When it is reached, writes that stage an event are refused. Default: no limit.
    pub max_bytes: u64,
    /// How long a failed delivery waits.
    pub backoff: Backoff,
    /// Whether missing tables are created. If not, they must exist.
    pub create_tables: bool,
    /// The case of JSON keys in entity events.
    pub json_case: JsonCase,
    /// The entities of whose updates earlier values are stored, for consumers that want them. Default: none.
    pub previous: Previous,
    /// What payloads take their memory from. Default: no limit.
    pub budget: Budget,
}

/// Entities of whose updates earlier values are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Previous {
    /// All entities.
    All,
    /// These.
    Of(BTreeSet<String>),
}

impl Default for Previous {
    fn default() -> Self {
        Self::Of(BTreeSet::new())
    }
}

impl Previous {
    /// Whether they are stored of this entity.
    pub fn has(&self, entity: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of(entities) => entities.contains(entity),
        }
    }

    /// These too: those of some entities or, without a list, of all.
    #[must_use]
    pub fn and(self, entities: Option<&[String]>) -> Self {
        match (self, entities) {
            (Self::Of(mut all), Some(more)) => {
                all.extend(more.iter().cloned());
                Self::Of(all)
            }
            _ => Self::All,
        }
    }
}

impl Default for OutboxOptions {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(1),
            max_attempts: 10,
            handler_grace: Duration::from_mins(15),
            lease: Duration::from_mins(1),
            retention: None,
            max_bytes: 0,
            backoff: Backoff::default(),
            create_tables: true,
            json_case: JsonCase::default(),
            previous: Previous::default(),
            budget: Budget::unlimited(),
        }
    }
}

impl OutboxOptions {
    /// The same with values that work: no wait is shorter than a millisecond, and there is at least one attempt.
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
