//! Settings that weaken a protection. Each is refused, or a warning at the start and of `check` names what it weakens.
//! The test `weakened` lists them, and fails for a setting that nobody has classified.

use std::time::Duration;

use gatewright_auth::Limit;
use gatewright_auth::jwt::JwtAlgorithm;
use gatewright_auth::password::PasswordAlgorithm;
use gatewright_db::Db;
use gatewright_http::Reach;
use url::Url;

use super::{Faults, is_loopback};
use crate::config::{Config, Delivery};

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let server = &config.server;
    if let Some(exposure) = exposure(config)
        && !server.allow_public_dev_mode
    {
        faults.add(
            "server.dev_mode",
            format!(
                "is on and {exposure}: anybody could sign in as any user. Use 127.0.0.1, or set \
                 `server.allow_public_dev_mode = true` (`--allow-public-dev`)"
            ),
        );
    }
    if let Reach::Family(family) = server.trusted_proxies.reach()
        && !server.dev_mode
    {
        faults.add("server.trusted_proxies", every_client_is_a_proxy(family));
    }
}

pub(super) fn warn(config: &Config, warnings: &mut Faults) {
    let server = &config.server;
    if let Some(exposure) = exposure(config) {
        warnings.add(
            "server.allow_public_dev_mode",
            format!("is on, dev mode is on and {exposure}: anybody can read `/dev/mail` and sign in as any user"),
        );
    }
    match server.trusted_proxies.reach() {
        // Outside dev mode it is refused.
        Reach::Family(family) if server.dev_mode => {
            warnings.add("server.trusted_proxies", every_client_is_a_proxy(family));
        }
        Reach::Broad(network) => warnings.add(
            "server.trusted_proxies",
            format!(
                "{network} is larger than the networks of one operator: clients in it choose the address that limits \
                 count and that logs show"
            ),
        ),
        Reach::Family(_) | Reach::Own => {}
    }
    if !server.dev_mode {
        warn_of_limits(config, warnings);
        warn_of_accounts(config, warnings);
        warn_of_traffic(config, warnings);
    }
}

/// How other computers reach a server in dev mode, if they do.
fn exposure(config: &Config) -> Option<String> {
    let server = &config.server;
    if !server.dev_mode {
        return None;
    }
    if let Some(open) = server.addresses().find(|address| !address.ip().to_canonical().is_loopback()) {
        return Some(format!("`server.listen` is {open}, which other computers can reach"));
    }
    let url = server.public_url.as_ref().filter(|url| !is_loopback(url))?;
    let host = url.host_str()?;
    Some(format!("`server.public_url` names {host}, which other computers can reach"))
}

fn every_client_is_a_proxy(family: &str) -> String {
    format!(
        "trusts most {family} addresses, so that clients choose their own address: limits, lockouts and logs become \
         useless. Name only the networks of your proxies"
    )
}

/// So many attempts, or so short a time, hardly slow down somebody who guesses.
const MOST_ATTEMPTS: u32 = 100;
const SHORTEST: Duration = Duration::from_mins(1);

fn warn_of_limits(config: &Config, warnings: &mut Faults) {
    let direct = !config.server.is_local() && config.server.trusted_proxies.is_empty();
    for (name, Limit { policy, trust_forwarded_for }) in
        config.auth.enabled.then(|| limits(config)).into_iter().flatten()
    {
        let mut warn = |holds: bool, key: &str, message: &str| {
            if holds {
                warnings.add(format!("auth.limits.{name}.{key}"), message);
            }
        };
        warn(policy.max_attempts() > MOST_ATTEMPTS, "max_attempts", "is more than 100: guessing is hardly limited");
        warn(policy.window() < SHORTEST, "window_seconds", "is less than a minute: guessing is hardly limited");
        warn(policy.block() < SHORTEST, "block_seconds", "is less than a minute: guessing is hardly limited");
        warn(
            trust_forwarded_for && direct,
            "trust_forwarded_for",
            "is on without `server.trusted_proxies`, and the server listens on an address of the network: a client that \
             connects to it directly chooses its own address",
        );
    }
    if config.server.max_connections_per_address == Some(0) {
        warnings.add("server.max_connections_per_address", "is 0: one client may take all connections");
    }
    if config.events.enabled && config.events.allow_client_slow_mode {
        warnings.add("events.allow_client_slow_mode", "is on: a client with a slow stream delays writes of others");
    }
}

fn limits(config: &Config) -> [(&'static str, Limit); 12] {
    let limits = &config.auth.limits;
    [
        ("login", limits.login),
        ("login_account", limits.login_account),
        ("register", limits.register),
        ("magic_link", limits.magic_link),
        ("anonymous", limits.anonymous),
        ("email_code", limits.email_code),
        ("device", limits.device),
        ("two_factor", limits.two_factor),
        ("two_factor_account", limits.two_factor_account),
        ("password_reset", limits.password_reset),
        ("email_verification", limits.email_verification),
        ("oauth", limits.oauth),
    ]
}

/// Below this cost, passwords are quick to guess from a stolen hash.
const WEAK_BCRYPT_COST: u32 = 10;
const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(7 * 24);

fn warn_of_accounts(config: &Config, warnings: &mut Faults) {
    let (auth, admin) = (&config.auth, &config.admin);
    if !auth.enabled {
        return;
    }
    if matches!(auth.password, PasswordAlgorithm::Bcrypt { cost } if cost < WEAK_BCRYPT_COST) {
        warnings.add("auth.bcrypt_cost", "below 10, a stolen password hash is quick to guess");
    }
    if auth.jwt_algorithm != JwtAlgorithm::Hs256 && auth.keys.rotate_days == 0 && auth.keys.files.is_empty() {
        warnings.add("auth.keys.rotate_days", "is 0: a stolen key signs for ever");
    }
    if auth.allow_weak_hashes {
        warnings.add("auth.allow_weak_hashes", "is on: a copy of such hashes is as good as a list of passwords");
    }
    for (key, lifetime, longest) in [
        ("auth.magic_link.ttl_seconds", auth.magic_link_ttl, DAY),
        ("auth.password_reset.ttl_seconds", auth.password_reset_ttl, DAY),
        ("auth.email_verification.ttl_seconds", auth.email_verification_ttl, WEEK),
    ] {
        if lifetime > longest {
            warnings
                .add(key, format!("is more than {} hours: old mails still open accounts", longest.as_secs() / 3600));
        }
    }
    if auth.allow_in_memory_stores && config.database.in_memory() {
        warnings.add(
            "auth.allow_in_memory_stores",
            "is on, and the database is in memory: accounts, second factors and lockouts end with the process",
        );
    }
    warn_of_proofs(config, warnings);
    if !auth.new_device_notice {
        warnings.add("auth.new_device_notice", "is off: nobody is told that a stranger has signed in");
    }
    if !config.audit.enabled {
        warnings.add("audit.enabled", "is off: nothing shows who did what to an account");
    }
    if !config.has_admin() {
        return;
    }
    if auth.impersonation {
        warnings.add("auth.impersonation", "is on: administrators can act as any user who is no administrator");
    }
    if !admin.require_two_factor {
        warnings.add("admin.require_two_factor", "is off: the password of an administrator opens every account");
    }
    if admin.fresh > DAY {
        warnings.add(
            "admin.fresh_sign_in_seconds",
            "is more than a day: a copied session of an administrator can do what is hard to undo",
        );
    }
    if auth.default_roles.iter().any(|role| role == admin.role) {
        warnings.add("auth.default_roles", format!("has {:?}: every new account is an administrator", admin.role));
    }
}

/// What new passwords and sign-ins with providers do not have to prove.
fn warn_of_proofs(config: &Config, warnings: &mut Faults) {
    let (policy, oauth) = (&config.auth.password_policy, &config.auth.oauth);
    for (key, is_on) in [("common", policy.common), ("personal", policy.personal)] {
        if !is_on {
            warnings
                .add(format!("auth.password_policy.{key}"), "is off: passwords that are guessed first are accepted");
        }
    }
    let named = [("google", &oauth.google), ("github", &oauth.github)];
    for (name, provider) in named.into_iter().filter_map(|(name, provider)| Some((name, provider.as_ref()?))) {
        if !provider.send_pkce {
            warnings.add(format!("auth.oauth.{name}.send_pkce"), STOLEN_CODE);
        }
    }
    for provider in &oauth.presets {
        for (key, is_on) in [("send_pkce", provider.send_pkce), ("send_nonce", provider.send_nonce)] {
            if !is_on {
                warnings.add(format!("auth.oauth.{}.{key}", provider.preset.name), STOLEN_CODE);
            }
        }
    }
    for (at, provider) in oauth.oauth2.iter().enumerate() {
        if !provider.send_pkce {
            warnings.add(format!("auth.oauth.oauth2[{at}].send_pkce"), STOLEN_CODE);
        }
    }
    for (at, provider) in oauth.oidc.iter().enumerate() {
        for (key, is_on) in [("send_pkce", provider.send_pkce), ("send_nonce", provider.send_nonce)] {
            if !is_on {
                warnings.add(format!("auth.oauth.oidc[{at}].{key}"), STOLEN_CODE);
            }
        }
    }
}

const STOLEN_CODE: &str = "is off: a stolen code of the provider may work in another browser";

fn warn_of_traffic(config: &Config, warnings: &mut Faults) {
    let database = &config.database;
    for (key, url) in [("database.url", Some(&database.url)), ("database.direct_url", database.direct_url.as_ref())] {
        if url.is_some_and(|url| Db::is_exposed(url.expose())) {
            warnings.add(
                key,
                "has `sslmode=disable` or `prefer` and leads to another computer: whoever is on the way can read accounts \
                 and records, or answer in the place of the database. Remove `sslmode`; `sslrootcert=FILE` names your own \
                 certificate authority",
            );
        }
    }
    #[cfg(feature = "mail")]
    if let Some(Ok(smtp)) = config.email.as_ref().map(|email| gatewright_mail::SmtpUrl::parse(&email.smtp_url))
        && !smtp.is_protected()
    {
        warnings.add(
            "email.smtp_url",
            "does not require encryption: whoever is on the way can read the links that sign users in. Use smtps:// or \
             smtp+starttls://",
        );
    }
    let jobs = config
        .jobs
        .iter()
        .enumerate()
        .filter_map(|(index, job)| Some((format!("job[{index}].url"), job.url.as_ref()?)));
    let hooks = config.hooks.iter().enumerate().map(|(index, hook)| (format!("hook[{index}].url"), &hook.url));
    for (key, _) in jobs.chain(hooks).filter(|(_, url)| is_plain(url)) {
        warnings.add(key, "is http://, without encryption: whoever is on the way reads and changes what is sent");
    }
    if !config.outbox.enabled {
        return;
    }
    if config.outbox.allow_private_networks == Some(true) {
        warnings.add(
            "outbox.allow_private_networks",
            "is on: webhooks may go to this computer and its network, which firewalls do not protect from it",
        );
    }
    for (index, consumer) in config.outbox.consumers.iter().enumerate() {
        if matches!(&consumer.delivery, Delivery::Webhook { url, .. } if is_plain(url)) {
            warnings.add(
                format!("outbox.consumer[{index}].url"),
                "is http://, without encryption: whoever is on the way reads the records",
            );
        }
    }
}

/// Whether what is sent there can be read on the way.
fn is_plain(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "http" && !is_loopback(&url))
}
