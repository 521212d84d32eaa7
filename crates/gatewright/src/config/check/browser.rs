use gatewright_http::AllowedOrigins;

use super::Faults;
use super::auth::path_is_sound;
use super::network::is_loopback;
use crate::config::Config;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let on = config.csrf.enabled || config.browser_backend.is_some();
    faults.require(
        !on || config.server.dev_mode || !config.csrf.secret.is_empty(),
        "csrf.secret",
        "is required outside dev mode when [csrf] or [browser_backend] is on: put the output of `gatewright secret` there",
    );
    faults.require_length(config, "csrf.secret", &config.csrf.secret);
    faults.require(
        config.csrf.previous_secrets.is_empty() || !config.csrf.secret.is_empty(),
        "csrf.previous_secrets",
        "only verifies existing tokens: `csrf.secret` is required to sign new ones",
    );
    for (index, secret) in config.csrf.previous_secrets.iter().enumerate() {
        let key = format!("csrf.previous_secrets[{index}]");
        faults.require(!secret.is_empty(), &*key, "must not be empty: anybody could sign with it");
        faults.require_length(config, &key, secret);
    }
    // If accounts are on, the checks of `[auth]` have already checked it.
    faults.require(
        config.auth.enabled || !on || path_is_sound(&config.auth.base_path),
        "auth.base_path",
        "must be a path such as \"/auth\", even without accounts: scripts get their CSRF token below it",
    );
    let Some(backend) = &config.browser_backend else { return };
    for (index, origin) in backend.allowed_origins.iter().enumerate() {
        if let Err(invalid) = AllowedOrigins::parse(&[origin]) {
            faults.add(format!("browser_backend.allowed_origins[{index}]"), invalid.to_string());
        }
    }
    // If `server.public_url` is set, the checks of `[server]` have already checked it.
    let public = config.public_url();
    faults.require(
        config.server.public_url.is_some() || public.scheme() == "https" || is_loopback(&public),
        "server.public_url",
        "must be set, and https, when [browser_backend] is on and the server listens on an address of the network",
    );
}
