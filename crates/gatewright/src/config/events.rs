use std::time::Duration;

use gatewright_base::Secret;

use super::read::{Keyword, Section};

/// `[events]`: the live streams of entity writes.
#[derive(Debug, Clone)]
pub struct Events {
    /// Whether the event bus is on. If not, streams answer 503.
    pub enabled: bool,
    /// What carries events to the other replicas. Absent: nothing.
    pub fanout: Option<Fanout>,
    /// The carrier's URL; may contain a password. Absent: for Postgres, the URL of the database.
    pub fanout_url: Option<Secret>,
    /// How often an idle stream sends a comment.
    pub heartbeat: Duration,
    /// The maximum number of streams in this process.
    pub max_subscribers: usize,
    /// The maximum number of streams of one account, or of all anonymous clients of one address.
    pub max_subscribers_per_caller: usize,
    /// The maximum number of streams of one client address.
    pub max_subscribers_per_address: usize,
    /// How long events are kept for streams that resume. Zero: they are not kept.
    pub replay: Duration,
    /// The most bytes of these events. Past them, the oldest are removed.
    pub replay_bytes: u64,
    /// Whether a client may request that writers wait for it.
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
            replay_bytes: 1 << 30,
            allow_client_slow_mode: false,
            block_timeout: Duration::from_secs(5),
        }
    }
}

impl Events {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            enabled: section.value("enabled", default.enabled, "`false`: streams answer 503."),
            fanout: section.value(
                "fanout",
                default.fanout,
                "The carrier that sends writes to the [streams of every server](events.md#several-servers). Empty: \
                 none.",
            ),
            fanout_url: section
                .optional(
                    "fanout_url",
                    "The URL of the carrier. For `\"postgres\"` the default is `database.url`, if that is Postgres.",
                )
                .filter(|url: &Secret| !url.is_empty()),
            heartbeat: section.seconds(
                "heartbeat_seconds",
                default.heartbeat,
                "How often a stream sends a heartbeat. A stream whose caller has lost access is closed within this \
                 time.",
            ),
            max_subscribers: section.value(
                "max_subscribers",
                default.max_subscribers,
                "The maximum number of open streams per process. Above it: 503.",
            ),
            max_subscribers_per_caller: section.value(
                "max_subscribers_per_caller",
                default.max_subscribers_per_caller,
                "The maximum number of open streams per account and process. The anonymous clients of one address \
                 (IPv6: of one /64, and eight times as many of one /48) count as one caller. Above it: 503.",
            ),
            max_subscribers_per_address: section.value(
                "max_subscribers_per_address",
                default.max_subscribers_per_address,
                "The maximum number of open streams per client address (IPv6: per /64, and eight times as many per \
                 /48) and process. Above it: 503.",
            ),
            replay: section.seconds(
                "replay_seconds",
                default.replay,
                "How long events are kept, so that streams can resume ([events](events.md#resume)). 0 disables the \
                 event log.",
            ),
            replay_bytes: section.value(
                "replay_bytes",
                default.replay_bytes,
                "The maximum size of the kept events. Above it, the oldest are removed at once, and streams that need them \
                 get `gap`. Records that the outbox keeps count for `outbox.max_bytes` instead.",
            ),
            allow_client_slow_mode: section.value(
                "allow_client_slow_mode",
                default.allow_client_slow_mode,
                "Allows `?slow=block`: writers wait for the client.",
            ),
            block_timeout: section.seconds(
                "block_timeout_seconds",
                default.block_timeout,
                "The maximum time that writers wait.",
            ),
        }
    }
}

/// `[outbox]`: durable delivery of entity writes.
#[derive(Debug, Clone)]
pub struct Outbox {
    /// Whether writes are staged for durable consumers.
    pub enabled: bool,
    /// How often the relay looks for work.
    pub poll_interval: Duration,
    /// The attempts after which a delivery is dead.
    pub max_attempts: u32,
    /// How long a delivery waits for a handler to appear.
    pub handler_grace: Duration,
    /// How long a claimed delivery belongs to one replica.
    pub lease: Duration,
    /// How long dispatched rows are kept. Absent: without limit.
    pub retention: Option<Duration>,
    /// The most bytes of all rows; 0: no limit.
    pub max_bytes: u64,
    /// Whether webhooks may go to loopback and private addresses. Absent: only in dev mode.
    pub allow_private_networks: Option<bool>,
    /// The server's own durable consumers.
    pub consumers: Vec<Consumer>,
}

/// `[[outbox.consumer]]`: a durable consumer.
#[derive(Debug, Clone)]
pub struct Consumer {
    /// Its stable name.
    pub name: String,
    /// The event type that it receives.
    pub event: String,
    /// The entities whose events it receives. Absent: all.
    pub entities: Option<Vec<String>>,
    /// Whether the events of updates have the earlier values of the fields that changed.
    pub previous: bool,
    /// How it gets its events.
    pub delivery: Delivery,
}

/// How a consumer gets its events.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// They are sent to it, signed.
    Webhook {
        /// The URL that receives them.
        url: String,
        /// Signs them.
        secret: Secret,
        /// Signs them too, while the receiver changes from one secret to another.
        previous_secret: Option<Secret>,
    },
    /// It requests them with an API token (`pull = true`).
    Pull,
}

impl Consumer {
    fn read(section: &mut Section<'_>) -> Self {
        let (name, event) = (
            section.required("name", "Its name. It must not change: a new name is a new consumer."),
            section.required(
                "event",
                "The type of events: `entity.created`, `entity.updated`, `entity.deleted`, or one that functions emit.",
            ),
        );
        let entities = section.derived("entities", "all", "The entities whose events it receives.");
        let previous = section.value(
            "previous",
            false,
            "Whether `data.previous` of updates has the earlier values of the fields that changed.",
        );
        let delivery = if section.value("pull", false, "The consumer pulls events, and has no `url` and no secret.") {
            Delivery::Pull
        } else {
            Delivery::Webhook {
                url: section.required("url", "The URL of the webhook. Only without `pull`."),
                secret: section
                    .required_secret("secret", "Secret that signs webhooks: `whsec_…`. Only without `pull`."),
                previous_secret: section
                    .optional(
                        "previous_secret",
                        "Previous secret, which also signs webhooks during a rotation. Only without `pull`.",
                    )
                    .filter(|secret: &Secret| !secret.is_empty()),
            }
        };
        Self { name, event, entities, previous, delivery }
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
            max_bytes: 10 << 30,
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
        let retention = section.seconds(
            "retention_seconds",
            Duration::ZERO,
            "How long dispatched events are kept. 0: without limit.",
        );
        Self {
            enabled: section.value("enabled", default.enabled, "Whether writes are staged for consumers."),
            poll_interval: section.milliseconds(
                "poll_interval_ms",
                default.poll_interval,
                "How often a server looks for deliveries without a notification. Staging an event sends a \
                 notification immediately.",
            ),
            max_attempts: section.value("max_attempts", default.max_attempts, "Attempts until a delivery is dead."),
            handler_grace: section.seconds(
                "handler_grace_seconds",
                default.handler_grace,
                "How long a delivery waits for an unknown consumer to be registered.",
            ),
            lease: section.seconds(
                "lease_seconds",
                default.lease,
                "How long a claimed delivery belongs to one server. The server renews the lease while the delivery is \
                 in progress.",
            ),
            retention: (!retention.is_zero()).then_some(retention),
            max_bytes: section.value(
                "max_bytes",
                default.max_bytes,
                "The maximum size of all kept events. 0: no limit. Above half of it, delivered events are removed \
                 before `retention_seconds`, and a caller may add only an eighth of it. At the limit, writes are 503 \
                 `outbox_full`.",
            ),
            allow_private_networks: section.derived(
                "allow_private_networks",
                "`false`; `true` in dev mode",
                "Whether webhooks may go to loopback and private addresses.",
            ),
            consumers: section.sections("consumer", Consumer::read),
        }
    }
}
