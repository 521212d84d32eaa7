use std::collections::BTreeSet;

use gatewright_events::outbox::Consumer;
use gatewright_events::outbox::webhook::SigningSecret;
use gatewright_mail::{Mailbox, SmtpUrl};
use http::HeaderName;
use url::Url;

use super::Faults;
use crate::config::{Config, Fanout, LimitStore};

pub(super) fn check(config: &Config, faults: &mut Faults) {
    email(config, faults);
    rate_limit(config, faults);
    events(config, faults);
    outbox(config, faults);
    faults.require(
        config.tenancy.header.parse::<HeaderName>().is_ok(),
        "tenancy.header",
        "must be the name of an HTTP header",
    );
    for role in config.roles.keys() {
        faults.require(!role.trim().is_empty(), "roles", "a role needs a name");
    }
}

fn email(config: &Config, faults: &mut Faults) {
    let Some(email) = &config.email else { return };
    if let Err(error) = SmtpUrl::parse(&email.smtp_url) {
        faults.add("email.smtp_url", error.to_string());
    }
    match Mailbox::parse(&email.from) {
        Err(error) => faults.add("email.from", error.to_string()),
        Ok(_) => {
            if let Err(error) = crate::app::mail::templates(Some(email)) {
                faults.add("email.templates", error);
            }
        }
    }
}

fn rate_limit(config: &Config, faults: &mut Faults) {
    let limit = &config.rate_limit;
    faults.require(
        limit.store != LimitStore::Redis || limit.redis_url.is_some(),
        "rate_limit.redis_url",
        "is required when `rate_limit.store` is \"redis\"",
    );
    if let Some(bucket) = &limit.api {
        faults.require(
            bucket.per_second.is_finite() && bucket.per_second > 0.0,
            "rate_limit.api.per_second",
            "must be more than 0",
        );
        faults.require(bucket.burst > 0, "rate_limit.api.burst", "must be at least 1");
    }
}

fn events(config: &Config, faults: &mut Faults) {
    let events = &config.events;
    faults.require(!events.heartbeat.is_zero(), "events.heartbeat_seconds", "must be at least 1");
    faults.require(events.max_subscribers > 0, "events.max_subscribers", "must be at least 1");
    let has_url = match events.fanout {
        None => true,
        Some(Fanout::Postgres) => events.fanout_url.is_some() || config.database.url.expose().starts_with("postgres"),
        Some(Fanout::Redis | Fanout::Nats) => events.fanout_url.is_some(),
    };
    faults.require(has_url, "events.fanout_url", "is required for this `events.fanout`");
}

fn outbox(config: &Config, faults: &mut Faults) {
    let outbox = &config.outbox;
    faults.require(!outbox.poll_interval.is_zero(), "outbox.poll_interval_ms", "must be at least 1");
    faults.require(outbox.max_attempts > 0, "outbox.max_attempts", "must be at least 1");
    faults.require(!outbox.lease.is_zero(), "outbox.lease_seconds", "must be at least 1");
    faults.require(
        outbox.enabled || outbox.consumers.is_empty(),
        "outbox.enabled",
        "must be true for `[[outbox.consumer]]` to be told of anything",
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
        for (field, secret) in
            [("secret", Some(&consumer.secret)), ("previous_secret", consumer.previous_secret.as_ref())]
        {
            if let Some(Err(error)) = secret.map(SigningSecret::parse) {
                faults.add(key(field), error.to_string());
            }
        }
        let sound = Url::parse(&consumer.url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        faults.require(sound, key("url"), "must be an http:// or https:// URL");
    }
}
