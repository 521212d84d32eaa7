use std::time::Duration;

use gatewright_base::Secret;

use super::read::{Keyword, Section};

/// `[events]`: the live streams of entity writes.
#[derive(Debug, Clone)]
pub struct Events {
    /// Whether there is an event bus. If not, streams answer 503.
    pub enabled: bool,
    /// What carries events to the other replicas. Absent: nothing.
    pub fanout: Option<Fanout>,
    /// The carrier's address; may carry a password. Absent: the database's, for Postgres.
    pub fanout_url: Option<Secret>,
    /// How often a silent stream sends a comment.
    pub heartbeat: Duration,
    /// Streams at once in this process.
    pub max_subscribers: usize,
    /// Of them, those of one account, or of all anonymous clients of one address.
    pub max_subscribers_per_caller: usize,
    /// Of them, those of one client address.
    pub max_subscribers_per_address: usize,
    /// How long events are kept for streams that resume. Zero: they are not.
    pub replay: Duration,
    /// Whether a client may ask that writers wait for it.
    pub allow_client_slow_mode: bool,
    /// How long a writer waits for such a client.
    pub block_timeout: Duration,
}

/// What carries events between replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fanout {
    /// Postgres notifications.
    Postgres,
    /// Redis publish and subscribe.
    Redis,
    /// NATS.
    Nats,
}

impl Keyword for Option<Fanout> {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("", None),
        ("postgres", Some(Fanout::Postgres)),
        ("redis", Some(Fanout::Redis)),
        ("nats", Some(Fanout::Nats)),
    ];
}

impl Default for Events {
    fn default() -> Self {
        Self {
            enabled: true,
            fanout: None,
            fanout_url: None,
            heartbeat: Duration::from_secs(15),
            max_subscribers: 10_000,
            max_subscribers_per_caller: 100,
            max_subscribers_per_address: 1_000,
            replay: Duration::from_mins(10),
            allow_client_slow_mode: false,
            block_timeout: Duration::from_secs(5),
        }
    }
}

impl Events {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            enabled: section.value("enabled", default.enabled),
            fanout: section.value("fanout", default.fanout),
            fanout_url: section.optional("fanout_url").filter(|url: &Secret| !url.is_empty()),
            heartbeat: section.seconds("heartbeat_seconds", default.heartbeat),
            max_subscribers: section.value("max_subscribers", default.max_subscribers),
            max_subscribers_per_caller: section.value("max_subscribers_per_caller", default.max_subscribers_per_caller),
            max_subscribers_per_address: section
                .value("max_subscribers_per_address", default.max_subscribers_per_address),
            replay: section.seconds("replay_seconds", default.replay),
            allow_client_slow_mode: section.value("allow_client_slow_mode", default.allow_client_slow_mode),
            block_timeout: section.seconds("block_timeout_seconds", default.block_timeout),
        }
    }
}

/// `[outbox]`: the durable lane of entity writes.
#[derive(Debug, Clone)]
pub struct Outbox {
    /// Whether writes are staged for durable consumers.
    pub enabled: bool,
    /// How often the relay looks for work.
    pub poll_interval: Duration,
    /// Attempts before a delivery is dead.
    pub max_attempts: u32,
    /// How long a delivery waits for a handler to appear.
    pub handler_grace: Duration,
    /// How long a claimed delivery belongs to one replica.
    pub lease: Duration,
    /// How long dispatched rows are kept. Absent: for ever.
    pub retention: Option<Duration>,
    /// Whether webhooks may go to loopback and private addresses. Absent: in dev mode alone.
    pub allow_private_networks: Option<bool>,
    /// The server's own durable consumers.
    pub consumers: Vec<Consumer>,
}

/// `[[outbox.consumer]]`: a durable consumer.
#[derive(Debug, Clone)]
pub struct Consumer {
    /// Its stable name.
    pub name: String,
    /// The event type it takes.
    pub event: String,
    /// The entities it takes. Absent: all.
    pub entities: Option<Vec<String>>,
    /// How it gets its events.
    pub delivery: Delivery,
}

/// How a consumer gets its events.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// They are sent to it, signed.
    Webhook {
        /// Where it is told.
        url: String,
        /// Signs what it is told.
        secret: Secret,
        /// Signs it too, while the receiver changes from one secret to another.
        previous_secret: Option<Secret>,
    },
    /// It asks for them with an API token (`pull = true`).
    Pull,
}

impl Consumer {
    fn read(section: &mut Section<'_>) -> Self {
        let (name, event) = (section.required("name"), section.required("event"));
        let entities = section.optional("entities");
        let delivery = if section.value("pull", false) {
            Delivery::Pull
        } else {
            Delivery::Webhook {
                url: section.required("url"),
                secret: section.required_secret("secret"),
                previous_secret: section.optional("previous_secret").filter(|secret: &Secret| !secret.is_empty()),
            }
        };
        Self { name, event, entities, delivery }
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            enabled: false,
            poll_interval: Duration::from_secs(1),
            max_attempts: 10,
            handler_grace: Duration::from_mins(15),
            lease: Duration::from_mins(1),
            retention: None,
            allow_private_networks: None,
            consumers: Vec::new(),
        }
    }
}

impl Outbox {
    /// Whether a consumer pulls.
    pub(crate) fn has_pulls(&self) -> bool {
        self.consumers.iter().any(|consumer| matches!(consumer.delivery, Delivery::Pull))
    }

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let retention = section.seconds("retention_seconds", Duration::ZERO);
        Self {
            enabled: section.value("enabled", default.enabled),
            poll_interval: section.milliseconds("poll_interval_ms", default.poll_interval),
            max_attempts: section.value("max_attempts", default.max_attempts),
            handler_grace: section.seconds("handler_grace_seconds", default.handler_grace),
            lease: section.seconds("lease_seconds", default.lease),
            retention: (!retention.is_zero()).then_some(retention),
            allow_private_networks: section.optional("allow_private_networks"),
            consumers: section.sections("consumer", Consumer::read),
        }
    }
}
