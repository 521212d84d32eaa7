use std::collections::BTreeSet;
use std::time::Duration;

use gatewright_events::outbox::webhook::{SigningSecret, is_public};
use url::{Host, Url};

use super::Faults;
use crate::config::Config;
use crate::hooks::action;

/// A request with an idempotency key holds its key for as long.
const LONGEST: Duration = Duration::from_secs(30);

pub(super) fn check(config: &Config, faults: &mut Faults) {
    for (index, hook) in config.hooks.iter().enumerate() {
        let key = |field: &str| format!("hook[{index}].{field}");
        let is_entity = config.entities.iter().any(|entity| entity.name() == hook.entity);
        faults.require(is_entity, key("entity"), format!("there is no entity {:?}", hook.entity));
        faults.require(
            !hook.on.is_empty(),
            key("on"),
            "names at least one of before_create, before_update, before_delete",
        );
        let mut seen = BTreeSet::new();
        for word in &hook.on {
            let message = format!("{word:?} is none of before_create, before_update, before_delete");
            faults.require(action(word).is_some(), key("on"), message);
            faults.require(seen.insert(word), key("on"), format!("{word:?} is named twice"));
        }
        match Url::parse(&hook.url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                let message = "this is an address of this machine or of a private network: set `allow_private = true`";
                faults.require(hook.allow_private || !is_private(&url), key("url"), message);
            }
            _ => faults.add(key("url"), "must be an http:// or https:// URL"),
        }
        if let Err(error) = SigningSecret::parse(&hook.secret) {
            faults.add(key("secret"), error.to_string());
        }
        let is_short = (Duration::from_millis(1)..=LONGEST).contains(&hook.timeout);
        faults.require(is_short, key("timeout_ms"), "must be from 1 to 30000");
    }
}

/// Hooks that may go to addresses that are not public, and those that writes go on without.
pub(super) fn warn(config: &Config, warnings: &mut Faults) {
    use crate::config::OnHookError;

    for (index, hook) in config.hooks.iter().enumerate() {
        if hook.allow_private {
            let message = "the hook may be at a loopback or private address; let nobody else choose this URL";
            warnings.add(format!("hook[{index}].allow_private"), message);
        }
        if hook.on_error == OnHookError::Ignore {
            let message = "writes go on while the hook does not answer: it must not decide who may write";
            warnings.add(format!("hook[{index}].on_error"), message);
        }
    }
}

/// Whether the URL itself shows that its address is not public. Names are resolved when the hook is called.
fn is_private(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        None => false,
    }
}
