use std::collections::BTreeSet;

use gatewright_auth::providers::oidc::is_issuer;
use gatewright_auth::providers::{is_provider_address, is_provider_name};

use super::Faults;
use crate::config::{Config, Oidc, Plugin};

const ADDRESS: &str = "must be https, or http to localhost or 127.0.0.1, without user information and fragment";

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let oauth = &config.auth.oauth;
    faults.require(
        !oauth.has_providers() || config.server.dev_mode || !oauth.state_secret.is_empty(),
        "auth.oauth.state_secret",
        "is required outside dev mode when a provider is configured: put the output of `gatewright secret` there",
    );
    faults.require_length(config, "auth.oauth.state_secret", &oauth.state_secret);
    for (index, secret) in oauth.state_previous_secrets.iter().enumerate() {
        let path = format!("auth.oauth.state_previous_secrets[{index}]");
        faults.require(!secret.is_empty(), &*path, "must not be empty: anybody could sign with it");
        faults.require_length(config, &path, secret);
    }
    faults.require(
        !oauth.state_secret.is_empty() || oauth.state_previous_secrets.is_empty(),
        "auth.oauth.state_previous_secrets",
        "previous secrets without `auth.oauth.state_secret`: new states could not be signed",
    );
    if let Some(key) = &oauth.token_encryption_key {
        faults.require(!key.is_empty(), "auth.oauth.token_encryption_key", "must not be empty");
        faults.require_length(config, "auth.oauth.token_encryption_key", key);
    }
    for (index, key) in oauth.token_previous_encryption_keys.iter().enumerate() {
        let path = format!("auth.oauth.token_previous_encryption_keys[{index}]");
        faults.require(!key.is_empty(), &*path, "must not be empty");
        faults.require_length(config, &path, key);
    }
    faults.require(
        oauth.token_encryption_key.is_some() || oauth.token_previous_encryption_keys.is_empty(),
        "auth.oauth.token_previous_encryption_keys",
        "previous keys without `token_encryption_key`: new tokens could not be encrypted",
    );
    faults.require(
        !oauth.has_providers() || config.plugins().contains(&Plugin::OAuth) || !config.auth.enabled,
        "auth.plugins",
        "providers are configured, and `oauth` is not among the plugins",
    );
    for (name, provider) in [("google", &oauth.google), ("github", &oauth.github)] {
        let Some(provider) = provider else { continue };
        let key = |field: &str| format!("auth.oauth.{name}.{field}");
        faults.require(!provider.client_id.is_empty(), key("client_id"), "must not be empty");
        faults.require(!provider.client_secret.is_empty(), key("client_secret"), "must not be empty");
        for (field, url) in [
            ("redirect_url", &provider.redirect_url),
            ("authorize_url", &provider.authorize_url),
            ("token_url", &provider.token_url),
            ("userinfo_url", &provider.userinfo_url),
            ("emails_url", &provider.emails_url),
        ] {
            faults.require(url.as_ref().is_none_or(is_provider_address), key(field), ADDRESS);
        }
    }
    let mut names = BTreeSet::from(["google", "github"]);
    for (index, provider) in oauth.oidc.iter().enumerate() {
        oidc(&format!("auth.oauth.oidc[{index}]"), provider, faults);
        faults.require(
            names.insert(&provider.name),
            format!("auth.oauth.oidc[{index}].name"),
            format!("the name {:?} is taken by another provider", provider.name),
        );
    }
}

fn oidc(key: &str, provider: &Oidc, faults: &mut Faults) {
    faults.require(
        is_provider_name(&provider.name),
        format!("{key}.name"),
        "must be 1 to 48 lower-case letters, digits, `-` or `_`: it is part of paths",
    );
    faults.require(
        is_issuer(&provider.issuer),
        format!("{key}.issuer"),
        "must be an https:// URL without a query; http:// is allowed only for localhost and 127.0.0.1",
    );
    faults.require(!provider.client_id.is_empty(), format!("{key}.client_id"), "must not be empty");
    faults.require(!provider.client_secret.is_empty(), format!("{key}.client_secret"), "must not be empty");
    faults.require(
        provider.redirect_url.as_ref().is_none_or(is_provider_address),
        format!("{key}.redirect_url"),
        ADDRESS,
    );
    faults.require(
        provider.scopes.iter().any(|scope| scope == "openid"),
        format!("{key}.scopes"),
        "must contain \"openid\"",
    );
}
