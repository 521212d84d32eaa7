use std::collections::BTreeMap;
use std::fmt::Write as _;

use gatewright_base::Secret;
use url::Url;

use crate::Config;
use crate::config::{Delivery, Fanout, LimitStore};

/// What must be equal on all servers, by the key of the configuration.
///
/// A value is a list. Its first entry is what the server uses, all entries are what it accepts: while a secret is rotated, the
/// servers differ in what they use, and each accepts what the others use. Of a secret there is only a fingerprint, an HMAC under
/// a key that is derived from the secret itself: who reads the database learns whether two servers have the same secret, and
/// nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings(BTreeMap<String, Vec<String>>);

impl Settings {
    pub(super) fn of(config: &Config) -> Self {
        let mut settings = Self::default();
        let (auth, events, limits) = (&config.auth, &config.events, &config.rate_limit);
        settings.secret("auth.jwt_secret", &auth.jwt_secret, &auth.jwt_previous_secrets);
        settings.secret("auth.oauth.state_secret", &auth.oauth.state_secret, &auth.oauth.state_previous_secrets);
        if let Some(key) = &auth.oauth.token_encryption_key {
            let previous = &auth.oauth.token_previous_encryption_keys;
            settings.secret("auth.oauth.token_encryption_key", key, previous);
        }
        settings.secret("csrf.secret", &config.csrf.secret, &config.csrf.previous_secrets);
        for consumer in &config.outbox.consumers {
            if let Delivery::Webhook { secret, previous_secret, .. } = &consumer.delivery {
                let key = format!("outbox.consumer.{}.secret", consumer.name);
                settings.secret(&key, secret, previous_secret.as_slice());
            }
        }
        settings.value("events.enabled", events.enabled.to_string());
        settings.value("events.replay_seconds", events.replay.as_secs().to_string());
        settings.value("outbox.enabled", config.outbox.enabled.to_string());
        let fanout = match events.fanout {
            None => "none",
            Some(Fanout::Postgres) => "postgres",
            Some(Fanout::Redis) => "redis",
            Some(Fanout::Nats) => "nats",
        };
        settings.value("events.fanout", fanout.to_owned());
        settings.address("events.fanout_url", events.fanout_url.as_ref());
        let store = match limits.store {
            LimitStore::Memory => "memory",
            LimitStore::Database => "database",
            LimitStore::Redis => "redis",
        };
        settings.value("rate_limit.store", store.to_owned());
        settings.address("rate_limit.redis_url", limits.redis_url.as_ref());
        settings
    }

    /// An empty secret is drawn by each process in dev mode, or not used.
    fn secret(&mut self, key: &str, used: &Secret, accepted: &[Secret]) {
        if !used.is_empty() {
            let all = std::iter::once(used).chain(accepted).map(|secret| fingerprint(key, secret));
            self.0.insert(key.to_owned(), all.collect());
        }
    }

    fn value(&mut self, key: &str, value: String) {
        self.0.insert(key.to_owned(), vec![value]);
    }

    /// Host, port and path of a URL that may contain a password.
    fn address(&mut self, key: &str, url: Option<&Secret>) {
        if let Some(url) = url.and_then(|url| Url::parse(url.expose()).ok()) {
            let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
            self.value(key, format!("{}{port}{}", url.host_str().unwrap_or_default(), url.path()));
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }

    /// Those of a row. A text of an unknown version has none.
    pub(super) fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    /// The keys in which two of `all` differ, in order. A key that one of the two does not have is not compared: it may be of
    /// another version.
    pub(super) fn differing(all: &[Self]) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for (place, one) in all.iter().enumerate() {
            for other in all.iter().skip(place + 1) {
                let pairs = one.0.iter().filter_map(|(key, values)| Some((key, values, other.0.get(key)?)));
                keys.extend(pairs.filter(|(_, one, other)| !agree(one, other)).map(|(key, ..)| key.clone()));
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }
}

/// Whether each accepts what the other uses.
fn agree(one: &[String], other: &[String]) -> bool {
    one.first().is_none_or(|used| other.contains(used)) && other.first().is_none_or(|used| one.contains(used))
}

/// 128 bits in hexadecimal.
fn fingerprint(key: &str, secret: &Secret) -> String {
    let derived = secret.derive_key(&format!("gatewright/replicas/{key}/v1"));
    derived.iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Settings {
        let base = "[auth]\njwt_secret = \"JWT\"\n[database]\nurl = \"postgres://app:canary@db/app\"\n";
        let text = format!("{base}{text}").replace("JWT", &"j".repeat(32));
        Settings::of(&Config::from_toml("test", &text).unwrap())
    }

    fn secret(first: char) -> Secret {
        Secret::new(first.to_string().repeat(40))
    }

    fn rotating(used: char, accepted: &[char]) -> Settings {
        let mut settings = Settings::default();
        settings.secret("auth.jwt_secret", &secret(used), &accepted.iter().copied().map(secret).collect::<Vec<_>>());
        settings
    }

    #[test]
    fn servers_agree_while_each_accepts_what_the_others_use() {
        let differing = |all: &[Settings]| Settings::differing(all).concat();
        // The documented steps of a rotation, in which two neighbours run at once.
        let steps = [rotating('a', &[]), rotating('a', &['b']), rotating('b', &['a']), rotating('b', &[])];
        for pair in steps.windows(2) {
            assert_eq!(differing(pair), "");
        }
        assert_eq!(differing(&[steps[0].clone(), steps[2].clone()]), "auth.jwt_secret", "a step was left out");
        assert_eq!(differing(&[steps[0].clone(), steps[3].clone()]), "auth.jwt_secret");
        assert_eq!(differing(&[steps[1].clone(), steps[1].clone(), steps[3].clone()]), "auth.jwt_secret");
        assert_eq!(differing(&[steps[0].clone(), Settings::default()]), "", "another version has no such key");
        assert_eq!(differing(&[Settings::parse("[1, 2]"), steps[0].clone()]), "");
    }

    #[test]
    fn every_setting_that_must_be_equal_is_named() {
        let base = config("");
        for (text, named) in [
            ("[events]\nreplay_seconds = 7\n", vec!["events.replay_seconds"]),
            ("[events]\nfanout = \"postgres\"\n", vec!["events.fanout"]),
            ("[outbox]\nenabled = true\n", vec!["outbox.enabled"]),
            ("[rate_limit]\nstore = \"database\"\n", vec!["rate_limit.store"]),
        ] {
            assert_eq!(Settings::differing(&[base.clone(), config(text)]), named, "{text}");
        }
        let redis =
            |host: &str| config(&format!("[rate_limit]\nstore = \"redis\"\nredis_url = \"redis://u:pw@{host}\"\n"));
        assert_eq!(Settings::differing(&[redis("one/0"), redis("two/0")]), ["rate_limit.redis_url"]);
        assert_eq!(Settings::differing(&[redis("one/0"), redis("one/1")]), ["rate_limit.redis_url"]);
        assert_eq!(Settings::differing(&[base.clone(), base]), Vec::<String>::new());
    }

    #[test]
    fn a_row_has_no_secret_and_reads_as_it_was() {
        let settings = config("[rate_limit]\nstore = \"redis\"\nredis_url = \"redis://u:canary@one:6379/0\"\n");
        let text = settings.to_text();
        for absent in ["canary", "jjjj", "u:"] {
            assert!(!text.contains(absent), "{text}");
        }
        assert_eq!(Settings::parse(&text), settings);
        let mut other = Settings::default();
        other.secret("csrf.secret", &Secret::new("j".repeat(32)), &[]);
        let of = |settings: &Settings, key: &str| settings.0[key][0].clone();
        assert_ne!(of(&settings, "auth.jwt_secret"), of(&other, "csrf.secret"), "one fingerprint for each purpose");
    }
}
