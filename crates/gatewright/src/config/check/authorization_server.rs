use std::time::Duration;

use gatewright_auth::plugins::authorization_server::{ClaimSource, IdentityClaims};

use super::Faults;
use crate::config::{Config, Plugin};

/// The longest lifetime of an access token. A longer-lived one would be like a password in a file.
const LONGEST_ACCESS: Duration = Duration::from_hours(24);
const LONGEST_REFRESH: Duration = Duration::from_hours(366 * 24);

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let server = &config.authorization_server;
    if !server.enabled {
        let needs = "needs `authorization_server.enabled = true`";
        faults.require(!server.openid, "authorization_server.openid", needs);
    }
    let none = server.claims.is_empty() || server.openid;
    faults.require(none, "authorization_server.claims", "needs `authorization_server.openid = true`");
    for (name, source) in &server.claims {
        let key = format!("authorization_server.claims.{name}");
        match source.parse::<ClaimSource>() {
            Err(error) => faults.require(false, key, error.to_string()),
            Ok(source) => {
                let is_declared = match &source {
                    ClaimSource::Profile(field) => config.auth.profile.iter().any(|known| known.name() == field),
                    ClaimSource::Tenant => config.entities.iter().any(gatewright_entities::Entity::is_multi_tenant),
                    ClaimSource::Roles => true,
                };
                let missing = "names a field that `[[auth.profile.field]]` does not declare, or a tenant although no entity is \
                               multi-tenant";
                faults.require(is_declared, key.clone(), missing);
                if let Err(error) = IdentityClaims::new().with(name, source) {
                    faults.require(false, key, error.to_string());
                }
            }
        }
    }
    if !server.enabled {
        return;
    }
    let key = "authorization_server.enabled";
    faults.require(config.auth.enabled, key, "needs `auth.enabled = true`");
    faults.require(
        config.plugins().contains(&Plugin::Tokens),
        key,
        "needs \"tokens\" in `auth.plugins`: access tokens are API tokens",
    );
    faults.require(
        config.plugins().contains(&Plugin::Core),
        key,
        "needs \"core\" in `auth.plugins`: users sign in before the consent",
    );
    for (key, ttl, longest, words) in [
        ("authorization_server.access_token_ttl_seconds", server.access_token_ttl, LONGEST_ACCESS, "a day (86400)"),
        (
            "authorization_server.refresh_token_ttl_seconds",
            server.refresh_token_ttl,
            LONGEST_REFRESH,
            "a year (31622400)",
        ),
    ] {
        faults.require(!ttl.is_zero(), key, "must be at least 1");
        faults.require(ttl <= longest, key, format!("must be at most {words}"));
    }
}
