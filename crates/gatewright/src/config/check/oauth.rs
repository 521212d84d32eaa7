use std::collections::BTreeSet;

use gatewright_auth::presets::{Protocol, Registration};
use gatewright_auth::providers::oidc::{MicrosoftTenant, is_issuer};
use gatewright_auth::providers::{is_apple_id, is_apple_key, is_provider_address, is_provider_name};

use super::Faults;
use crate::config::{Account, Addresses, Config, OAuth2, Oidc, Plugin, PresetProvider};

const NAME: &str = "must be 1 to 48 lower-case letters, digits, `-` or `_`: it is part of paths";
const ISSUER: &str = "must be an https:// URL without a query; http:// is allowed only for localhost and 127.0.0.1";
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
    for provider in &oauth.presets {
        preset(provider, faults);
        names.insert(provider.preset.name);
    }
    for (index, provider) in oauth.oidc.iter().enumerate() {
        oidc(&format!("auth.oauth.oidc[{index}]"), provider, faults);
        faults.require(names.insert(&provider.name), format!("auth.oauth.oidc[{index}].name"), taken(&provider.name));
    }
    for (index, provider) in oauth.oauth2.iter().enumerate() {
        oauth2(&format!("auth.oauth.oauth2[{index}]"), provider, faults);
        faults.require(names.insert(&provider.name), format!("auth.oauth.oauth2[{index}].name"), taken(&provider.name));
    }
}

fn taken(name: &str) -> String {
    format!("the name {name:?} is taken by another provider")
}

fn preset(provider: &PresetProvider, faults: &mut Faults) {
    let key = |field: &str| format!("auth.oauth.{}.{field}", provider.preset.name);
    faults.require(!provider.client_id.is_empty(), key("client_id"), "must not be empty");
    let Addresses { authorize_url, token_url, userinfo_url, issuer } = &provider.addresses;
    for (field, url) in [
        ("redirect_url", &provider.redirect_url),
        ("authorize_url", authorize_url),
        ("token_url", token_url),
        ("userinfo_url", userinfo_url),
    ] {
        faults.require(url.as_ref().is_none_or(is_provider_address), key(field), ADDRESS);
    }
    let issuer_key = if provider.preset.registration == Registration::Microsoft { "authority" } else { "issuer" };
    faults.require(issuer.as_deref().is_none_or(is_issuer), key(issuer_key), ISSUER);
    if let Protocol::OpenId { .. } = provider.preset.protocol {
        faults.require(has_openid(&provider.scopes), key("scopes"), "must contain \"openid\"");
    }
    match &provider.account {
        Account::Secret(secret) => faults.require(!secret.is_empty(), key("client_secret"), "must not be empty"),
        Account::Microsoft { client_secret, tenant } => {
            faults.require(!client_secret.is_empty(), key("client_secret"), "must not be empty");
            faults.require(
                MicrosoftTenant::parse(tenant).is_some(),
                key("tenant"),
                "must be \"common\", \"organizations\", \"consumers\" or the id of a tenant, such as \
                 \"8eaef023-2b34-4da1-9baa-8bc8c9d6a490\"",
            );
        }
        Account::Apple { team_id, key_id, private_key } => {
            for (field, id) in [("team_id", team_id), ("key_id", key_id)] {
                faults.require(is_apple_id(id), key(field), "must be ten capital letters and digits");
            }
            faults.require(
                is_apple_key(private_key),
                key("private_key"),
                "must be a private key on the curve P-256 in PEM, from \"-----BEGIN PRIVATE KEY-----\" on: the content of \
                 Apple's file `AuthKey_….p8`",
            );
        }
    }
}

fn oauth2(key: &str, provider: &OAuth2, faults: &mut Faults) {
    faults.require(is_provider_name(&provider.name), format!("{key}.name"), NAME);
    faults.require(!provider.client_id.is_empty(), format!("{key}.client_id"), "must not be empty");
    faults.require(!provider.client_secret.is_empty(), format!("{key}.client_secret"), "must not be empty");
    for (field, url) in [
        ("authorize_url", Some(&provider.authorize_url)),
        ("token_url", Some(&provider.token_url)),
        ("userinfo_url", Some(&provider.userinfo_url)),
        ("redirect_url", provider.redirect_url.as_ref()),
    ] {
        faults.require(url.is_none_or(is_provider_address), format!("{key}.{field}"), ADDRESS);
    }
    faults.require(
        !provider.claims.subject.is_empty(),
        format!("{key}.claims.subject"),
        "must not be empty: nobody could be recognized",
    );
    faults.require(
        !provider.issuer.as_deref().is_some_and(str::is_empty),
        format!("{key}.issuer"),
        "must not be empty; leave it out if callbacks have no `iss`",
    );
    faults.require(
        !provider.claims.email_verified.as_deref().is_some_and(str::is_empty),
        format!("{key}.claims.email_verified"),
        "must not be empty; leave it out if the service does not verify addresses",
    );
}

fn has_openid(scopes: &[String]) -> bool {
    scopes.iter().any(|scope| scope == "openid")
}

fn oidc(key: &str, provider: &Oidc, faults: &mut Faults) {
    faults.require(is_provider_name(&provider.name), format!("{key}.name"), NAME);
    faults.require(is_issuer(&provider.issuer), format!("{key}.issuer"), ISSUER);
    faults.require(!provider.client_id.is_empty(), format!("{key}.client_id"), "must not be empty");
    faults.require(!provider.client_secret.is_empty(), format!("{key}.client_secret"), "must not be empty");
    faults.require(
        provider.redirect_url.as_ref().is_none_or(is_provider_address),
        format!("{key}.redirect_url"),
        ADDRESS,
    );
    faults.require(has_openid(&provider.scopes), format!("{key}.scopes"), "must contain \"openid\"");
}
