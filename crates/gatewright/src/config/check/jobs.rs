use std::collections::BTreeSet;

use gatewright_entities::TextPlace;
use gatewright_events::outbox::Consumer;
use gatewright_events::outbox::webhook::SigningSecret;
use url::Url;

use super::Faults;
use crate::config::{Config, Job};
use crate::jobs::{RESERVED, Schedule, zone};

/// The longest name of a job, in characters.
const LONGEST_NAME: usize = 64;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for (index, job) in config.jobs.iter().enumerate() {
        let key = |field: &str| format!("job[{index}].{field}");
        faults.require(
            is_name(&job.name),
            key("name"),
            format!("has 1 to {LONGEST_NAME} letters, digits, `-` and `_`"),
        );
        faults.require(
            names.insert(&job.name),
            key("name"),
            format!("the name {:?} is taken by another job", job.name),
        );
        match zone(&job.timezone) {
            Ok(zone) => {
                if let Err(error) = Schedule::parse(&job.schedule, zone) {
                    let at = TextPlace { line: 1, column: error.column };
                    faults.add_at(key("schedule"), error.message, Some(at));
                }
            }
            Err(message) => faults.add(key("timezone"), message),
        }
        action(config, job, key, faults);
    }
}

fn action(config: &Config, job: &Job, key: impl Fn(&str) -> String, faults: &mut Faults) {
    match (&job.url, &job.emit) {
        (None, None) => faults.add(key("name"), "a job needs `url`, or `emit`"),
        (Some(_), Some(_)) => faults.add(key("emit"), "is for a job without `url`"),
        (Some(url), None) => {
            let sound = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            faults.require(sound, key("url"), "must be an http:// or https:// URL");
            match job.secret.as_ref().map(SigningSecret::parse) {
                None => faults.add(key("url"), "needs `secret`, which signs the call"),
                Some(Err(error)) => faults.add(key("secret"), error.to_string()),
                Some(Ok(_)) => {}
            }
        }
        (None, Some(event)) => {
            faults.require(config.outbox.enabled, key("emit"), "needs `outbox.enabled = true`");
            let is_type = Consumer::new("consumer", event, async |_| Ok::<_, std::io::Error>(())).is_ok();
            faults.require(is_type, key("emit"), "must be the type of an event, such as \"digest.due\"");
            let is_reserved = RESERVED.iter().any(|reserved| event.starts_with(reserved));
            let message = format!("the service itself emits events whose types begin with {}", RESERVED.join(", "));
            faults.require(!is_reserved, key("emit"), message);
            faults.require(job.secret.is_none(), key("secret"), "is for a job with `url`");
            faults.require(job.allow_private.is_none(), key("allow_private"), "is for a job with `url`");
        }
    }
}

/// Calls of jobs that may go to addresses that are not public.
pub(super) fn warn(config: &Config, warnings: &mut Faults) {
    for (index, job) in config.jobs.iter().enumerate() {
        if job.allow_private == Some(true) && !config.server.dev_mode {
            let message = "the call may go to loopback and private addresses; give this URL to nobody else to choose";
            warnings.add(format!("job[{index}].allow_private"), message);
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
