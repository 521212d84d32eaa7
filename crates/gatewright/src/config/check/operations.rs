use std::collections::BTreeSet;
use std::time::Duration;

use gatewright_base::nearest;
use gatewright_events::outbox::Consumer;
use gatewright_events::outbox::webhook::SigningSecret;
use gatewright_limits::bucket::Rate;
use http::HeaderName;
use url::Url;

use super::Faults;
use crate::app::account_events;
use crate::carriers::{RedisLimits, nats_fanout, redis_fanout};
use crate::config::{Config, Delivery, Fanout, Functions, LimitStore, Plugin};
use crate::consumers::refuse_name;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    rate_limit(config, faults);
    functions(config, faults);
    events(config, faults);
    outbox(config, faults);
    #[cfg(not(feature = "docs"))]
    faults.require(!config.docs, "docs.enabled", crate::carriers::without("docs"));
    #[cfg(not(feature = "mcp"))]
    faults.require(!config.mcp.enabled, "mcp.enabled", crate::carriers::without("mcp"));
    faults.require(config.server.max_connections > 0, "server.max_connections", "must be at least 1");
    faults.require(
        config.tenancy.header.parse::<HeaderName>().is_ok(),
        "tenancy.header",
        "must be the name of an HTTP header",
    );
    faults.require(
        !config.audit.entities || config.auth.enabled,
        "audit.entities",
        "needs `auth.enabled`: the table `audit_log` is one of the accounts' tables",
    );
    for role in config.roles.keys() {
        faults.require(!role.trim().is_empty(), "roles", "a role needs a name");
    }
    for role in config.tenancy.roles.keys() {
        faults.require(
            (1..=64).contains(&role.len())
                && role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "tenancy.roles",
            "the name of a role within tenants has 1 to 64 letters, digits, `-`, `_` and `.`",
        );
    }
}

fn functions(config: &Config, faults: &mut Faults) {
    let Functions { folder, memory_bytes, write_timeout, timeout, job_timeout, allow_hosts, .. } = &config.functions;
    if let Some(folder) = folder {
        faults.require(folder.is_dir(), "functions.folder", format!("{} is no folder", folder.display()));
    }
    faults.require(
        (1 << 20..=256 << 20).contains(memory_bytes),
        "functions.memory_bytes",
        "must be from 1048576 (1 MiB) to 268435456 (256 MiB)",
    );
    let is_short = |time: &Duration| (Duration::from_millis(1)..=Duration::from_mins(1)).contains(time);
    faults.require(is_short(write_timeout), "functions.write_timeout_ms", "must be from 1 to 60000");
    faults.require(is_short(timeout), "functions.timeout_ms", "must be from 1 to 60000");
    faults.require(
        (Duration::from_millis(1)..=Duration::from_hours(24)).contains(job_timeout),
        "functions.job_timeout_ms",
        "must be from 1 to 86400000 (a day)",
    );
    for host in allow_hosts {
        let message = format!("`{host}` is no host: write a name or an address, with or without a port");
        faults.require(crate::functions::is_host(host), "functions.allow_hosts", message);
    }
    let is_taken = config.api_prefix().is_empty() && config.entities.iter().any(|entity| entity.name() == "fn");
    faults.require(
        config.functions.used_folder().is_none() || !is_taken,
        "entity.name",
        "`fn` is the path of functions: take another name, or set `server.api_prefix`",
    );
}

/// The smallest event log, in bytes.
const MIN_REPLAY: u64 = 64 << 10;
/// The least limit of the outbox: the largest event, and what callers add until its bytes are counted.
const MIN_OUTBOX: u64 = 64 << 20;

/// The types of the events that the server emits itself.
const EMITTED: [&str; 3] = ["entity.created", "entity.updated", "entity.deleted"];

pub(super) fn warn(config: &Config, warnings: &mut Faults) {
    for (index, consumer) in config.outbox.consumers.iter().enumerate() {
        // Functions emit types of their own.
        let may_be_emitted = config.functions.used_folder().is_some() && !consumer.event.starts_with("entity.");
        let is_of_job = config.jobs.iter().any(|job| job.emit.as_deref() == Some(&*consumer.event));
        let is_of_account = account_events::types().any(|known| known == consumer.event);
        if is_of_job || is_of_account || EMITTED.contains(&&*consumer.event) || may_be_emitted {
            continue;
        }
        let hint =
            nearest(&consumer.event, EMITTED).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        warnings.add(
            format!("outbox.consumer[{index}].event"),
            format!(
                "the server emits no event of the type {:?}{hint} It emits {} and those of accounts; other types come from functions, from a \
                 `[[job]]` with `emit`, or from a program that embeds it",
                consumer.event,
                EMITTED.join(", ")
            ),
        );
    }
}

fn rate_limit(config: &Config, faults: &mut Faults) {
    let limit = &config.rate_limit;
    match (limit.store, &limit.redis_url) {
        (LimitStore::Redis, Some(url)) => {
            // In a build without Redis, this always fails.
            if let Some(error) = RedisLimits::open(url).err() {
                faults.add("rate_limit.redis_url", error);
            }
        }
        (LimitStore::Redis, None) => {
            faults.add("rate_limit.store", "needs `rate_limit.redis_url`, the address of its server");
        }
        (LimitStore::Memory | LimitStore::Database, Some(_)) => {
            faults.add("rate_limit.redis_url", "is for `rate_limit.store = \"redis\"`");
        }
        (LimitStore::Memory | LimitStore::Database, None) => {}
    }
    if let Some(bucket) = &limit.api {
        let positive = bucket.per_second.is_finite() && bucket.per_second > 0.0;
        faults.require(positive, "rate_limit.api.per_second", "must be more than 0");
        faults.require(bucket.burst > 0, "rate_limit.api.burst", "must be at least 1");
        if let Err(error) = Rate::new(bucket.per_second, bucket.burst)
            && positive
            && bucket.burst > 0
        {
            faults.add("rate_limit.api", error.to_string());
        }
    }
}

fn events(config: &Config, faults: &mut Faults) {
    let events = &config.events;
    faults.require(!events.heartbeat.is_zero(), "events.heartbeat_seconds", "must be at least 1");
    for (key, seats) in [
        ("events.max_subscribers", events.max_subscribers),
        ("events.max_subscribers_per_caller", events.max_subscribers_per_caller),
        ("events.max_subscribers_per_address", events.max_subscribers_per_address),
    ] {
        faults.require(seats > 0, key, "must be at least 1");
    }
    faults.require(
        events.replay_bytes >= MIN_REPLAY,
        "events.replay_bytes",
        format!("must be at least {MIN_REPLAY}; `events.replay_seconds = 0` disables the event log"),
    );
    let key = "events.fanout_url";
    let refused = match (events.fanout, &events.fanout_url) {
        (None, None) => None,
        (None, Some(_)) => Some("is for `events.fanout`, which is not set".to_owned()),
        (Some(Fanout::Postgres), None) if config.database.url.expose().starts_with("postgres") => None,
        (Some(Fanout::Postgres), None) => {
            let message = "needs Postgres, and `database.url` is SQLite: one server needs no `fanout`; for several, set \
                           `database.url` to a Postgres database";
            return faults.add("events.fanout", message);
        }
        (Some(_), None) => {
            let message = "needs `events.fanout_url`, the address of its server";
            return faults.add("events.fanout", message);
        }
        (Some(Fanout::Postgres), Some(url)) => {
            let sound = url.expose().starts_with("postgres://") || url.expose().starts_with("postgresql://");
            (!sound).then(|| "must start with postgres://".to_owned())
        }
        (Some(Fanout::Redis), Some(url)) => redis_fanout(url).err().map(|error| error.to_string()),
        (Some(Fanout::Nats), Some(url)) => nats_fanout(url).err().map(|error| error.to_string()),
    };
    if let Some(message) = refused {
        faults.add(key, message);
    }
}

fn outbox(config: &Config, faults: &mut Faults) {
    let outbox = &config.outbox;
    faults.require(!outbox.poll_interval.is_zero(), "outbox.poll_interval_ms", "must be at least 1");
    faults.require(outbox.max_attempts > 0, "outbox.max_attempts", "must be at least 1");
    faults.require(!outbox.lease.is_zero(), "outbox.lease_seconds", "must be at least 1");
    faults.require(
        outbox.max_bytes == 0 || outbox.max_bytes >= MIN_OUTBOX,
        "outbox.max_bytes",
        format!("must be at least {MIN_OUTBOX}, or 0 for no limit"),
    );
    faults.require(
        outbox.enabled || outbox.consumers.is_empty(),
        "outbox.enabled",
        "must be true if there is an `[[outbox.consumer]]`",
    );
    let mut names = BTreeSet::new();
    for (index, consumer) in outbox.consumers.iter().enumerate() {
        let key = |field: &str| format!("outbox.consumer[{index}].{field}");
        if let Err(error) = Consumer::new(&consumer.name, "event", async |_| Ok::<_, std::io::Error>(())) {
            faults.add(key("name"), error.to_string());
        }
        faults.require(
            names.insert(&consumer.name),
            key("name"),
            format!("the name {:?} is taken by another consumer", consumer.name),
        );
        let event = Consumer::new("consumer", &consumer.event, async |_| Ok::<_, std::io::Error>(()));
        faults.require(event.is_ok(), key("event"), "must name an event type, such as \"entity.created\"");
        match &consumer.delivery {
            Delivery::Webhook { url, secret, previous_secret } => {
                for (field, secret) in [("secret", Some(secret)), ("previous_secret", previous_secret.as_ref())] {
                    if let Some(Err(error)) = secret.map(SigningSecret::parse) {
                        faults.add(key(field), error.to_string());
                    }
                }
                let sound = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
                faults.require(sound, key("url"), "must be an http:// or https:// URL");
            }
            Delivery::Pull => {
                if let Some(message) = refuse_name(&consumer.name) {
                    faults.add(key("name"), message);
                }
                let tokens = config.auth.enabled && config.plugins().contains(&Plugin::Tokens);
                faults.require(
                    tokens,
                    key("pull"),
                    "needs `auth.enabled = true` and \"tokens\" in `auth.plugins`: events are pulled with an API token",
                );
            }
        }
    }
}
