//! The running configuration without secrets. The shown keys are listed here, so a new key is not shown until it is
//! added to the list.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use gatewright_auth::password::PasswordAlgorithm;
use gatewright_auth::{Limit, Limits};
use gatewright_base::{Grants, Secret};
use gatewright_entities::Entity;
use serde_json::{Map, Value, json};
use url::Url;

use super::AdminState;
use super::answer::data;
use crate::Config;
use crate::config::{Account, Branding, Consumer, Delivery, OAuth, OAuthProvider, PresetProvider};

/// `GET /configuration`.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/configuration", get(show))
}

async fn show(State(state): State<AdminState>) -> Json<Value> {
    data(shown(&state.config))
}

/// Spelled as the file spells it.
fn shown(config: &Config) -> Value {
    let (server, events, outbox) = (&config.server, &config.events, &config.outbox);
    let consumers: Vec<_> = outbox.consumers.iter().map(consumer).collect();
    let entities: Vec<_> = config.declared().iter().map(entity).collect();
    json!({
        "server": {
            "listen": server.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "tls": server.tls.as_ref().map(|tls| json!({ "certificate": tls.certificate, "redirect_http": tls.redirect_http })),
            "pid_file": server.pid_file,
            "public_url": without_credentials(&config.public_url()),
            "dev_mode": server.dev_mode,
            "api_prefix": config.api_prefix(),
            "json_case": format!("{:?}", server.json_case).to_lowercase(),
            "request_timeout_seconds": server.request_timeout.as_secs(),
            "export_timeout_seconds": server.export_timeout.as_secs(),
            "max_body_bytes": server.max_body_bytes,
            "max_connections": server.max_connections,
            "max_connections_per_address": server.max_connections_per_address,
            "slow_reader_seconds": server.slow_reader.as_secs(),
            "allow_public_dev_mode": server.allow_public_dev_mode,
            "trusted_proxies": server.trusted_proxies.networks().collect::<Vec<_>>(),
            "memory_budget_bytes": server.memory_budget_bytes,
            "drain_seconds": config.drain().as_secs(),
        },
        "database": {
            "url": of_secret(&config.database.url),
            "direct_url": config.database.direct_url.as_ref().map(of_secret),
            "create_tables": config.database.create_tables,
            "max_connections": config.database.max_connections,
            "list_timeout_seconds": config.database.list_timeout.as_secs_f64(),
        },
        "auth": auth(config),
        "roles": roles(&config.roles),
        "tenancy": {
            "header": config.tenancy.header,
            "self_service": config.tenancy.self_service,
            "roles": roles(&config.tenancy.roles),
        },
        "branding": branding(&config.branding),
        "admin": {
            "role": config.admin.role,
            "require_two_factor": config.admin.require_two_factor,
            "fresh_sign_in_seconds": config.admin.fresh.as_secs(),
        },
        "email": config.email.as_ref().map(|email| json!({ "smtp_url": of_secret(&email.smtp_url), "from": email.from })),
        "rate_limit": {
            "store": format!("{:?}", config.rate_limit.store).to_lowercase(),
            "redis_url": config.rate_limit.redis_url.as_ref().map(of_secret),
            "api": config.rate_limit.api.as_ref().map(|bucket| json!({
                "key": format!("{:?}", bucket.key).to_lowercase(), "per_second": bucket.per_second, "burst": bucket.burst,
            })),
        },
        "csrf": { "enabled": config.csrf.enabled, "secret": is_set(&config.csrf.secret) },
        "browser_backend": config.browser_backend.as_ref().map(|backend| json!({ "allowed_origins": backend.allowed_origins })),
        "events": {
            "enabled": events.enabled,
            "fanout": events.fanout.map(|fanout| format!("{fanout:?}").to_lowercase()),
            "fanout_url": events.fanout_url.as_ref().map(of_secret),
            "heartbeat_seconds": events.heartbeat.as_secs(),
            "replay_bytes": events.replay_bytes,
            "replay_seconds": events.replay.as_secs(),
            "max_subscribers": events.max_subscribers,
            "max_subscribers_per_caller": events.max_subscribers_per_caller,
            "max_subscribers_per_address": events.max_subscribers_per_address,
            "allow_client_slow_mode": events.allow_client_slow_mode,
        },
        "outbox": {
            "enabled": outbox.enabled,
            "max_attempts": outbox.max_attempts,
            "lease_seconds": outbox.lease.as_secs(),
            "handler_grace_seconds": outbox.handler_grace.as_secs(),
            "retention_seconds": outbox.retention.map_or(0, |kept| kept.as_secs()),
            "max_bytes": outbox.max_bytes,
            "consumer": consumers,
        },
        "audit": {
            "enabled": config.audit.enabled,
            "entities": config.audit.entities,
            "retention_days": config.audit.retention.map(|kept| kept.as_secs() / 86_400),
        },
        "authorization_server": {
            "enabled": config.authorization_server.enabled,
            "dynamic_registration": config.authorization_server.dynamic_registration,
            "client_documents": config.authorization_server.client_documents,
            "access_token_ttl_seconds": config.authorization_server.access_token_ttl.as_secs(),
            "refresh_token_ttl_seconds": config.authorization_server.refresh_token_ttl.as_secs(),
            "openid": config.authorization_server.openid,
            "claims": config.authorization_server.claims,
        },
        "mcp": { "enabled": config.mcp.enabled, "anonymous": config.mcp.anonymous },
        "docs": { "enabled": config.docs },
        "entity": entities,
    })
}

fn branding(branding: &Branding) -> Value {
    json!({
        "name": branding.name,
        "logo": branding.logo,
        "logo_dark": branding.logo_dark,
        "color": branding.color,
        "radius": branding.radius,
        "support_url": branding.support_url.as_ref().map(url::Url::as_str),
        "terms_url": branding.terms_url.as_ref().map(url::Url::as_str),
        "privacy_url": branding.privacy_url.as_ref().map(url::Url::as_str),
        "languages": branding.languages,
        "languages_folder": branding.languages_folder.as_ref().map(|folder| folder.display().to_string()),
    })
}

fn auth(config: &Config) -> Value {
    let auth = &config.auth;
    let plugins: Vec<_> = config.plugins().iter().map(|plugin| plugin.as_str()).collect();
    json!({
        "enabled": auth.enabled,
        "base_path": auth.base_path,
        "jwt_secret": is_set(&auth.jwt_secret),
        "jwt_expiry_seconds": auth.jwt_expiry.as_secs(),
        "jwt_algorithm": auth.jwt_algorithm.as_str(),
        "keys": {
            "secret": is_set(&auth.keys.secret),
            "rotate_days": auth.keys.rotate_days,
            "files": auth.keys.files.len(),
        },
        "session_ttl_seconds": auth.session_ttl.as_secs(),
        "default_roles": auth.default_roles,
        "registration": format!("{:?}", auth.registration).to_lowercase(),
        "require_verified_email": auth.require_verified_email,
        "new_device_notice": auth.new_device_notice,
        "on_account_delete": format!("{:?}", auth.on_account_delete).to_lowercase(),
        "redirect_urls": auth.redirect_urls.iter().map(Url::as_str).collect::<Vec<_>>(),
        "password_hash": password(auth.password),
        "guests": auth.guests,
        "guest_days": auth.guest_days,
        "impersonation": auth.impersonation,
        "allow_weak_hashes": auth.allow_weak_hashes,
        "password_policy": {
            "min_length": auth.password_policy.min_length,
            "common": auth.password_policy.common,
            "personal": auth.password_policy.personal,
        },
        "magic_link_ttl_seconds": auth.magic_link_ttl.as_secs(),
        "email_verification_ttl_seconds": auth.email_verification_ttl.as_secs(),
        "password_reset_ttl_seconds": auth.password_reset_ttl.as_secs(),
        "two_factor_issuer": auth.two_factor_issuer,
        "limits": limits(&auth.limits),
        "oauth": oauth(&auth.oauth),
        "plugins": plugins,
    })
}

fn password(algorithm: PasswordAlgorithm) -> String {
    match algorithm {
        PasswordAlgorithm::Bcrypt { cost } => format!("bcrypt, cost {cost}"),
        PasswordAlgorithm::Argon2id { memory_kib, iterations, parallelism } => {
            format!("argon2id, {memory_kib} KiB, {iterations} passes, {parallelism} lanes")
        }
    }
}

fn limits(limits: &Limits) -> Value {
    let shown = |limit: Limit| {
        json!({
            "max_attempts": limit.policy.max_attempts(),
            "window_seconds": limit.policy.window().as_secs(),
            "block_seconds": limit.policy.block().as_secs(),
        })
    };
    json!({
        "login": shown(limits.login),
        "login_account": shown(limits.login_account),
        "register": shown(limits.register),
        "magic_link": shown(limits.magic_link),
        "anonymous": shown(limits.anonymous),
        "email_code": shown(limits.email_code),
        "device": shown(limits.device),
        "two_factor": shown(limits.two_factor),
        "two_factor_account": shown(limits.two_factor_account),
        "password_reset": shown(limits.password_reset),
        "email_verification": shown(limits.email_verification),
        "oauth": shown(limits.oauth),
    })
}

/// The names of the providers, without their secrets.
fn oauth(oauth: &OAuth) -> Value {
    let provider = |provider: &OAuthProvider| json!({ "client_id": provider.client_id, "client_secret": is_set(&provider.client_secret) });
    let oidc: Vec<_> = oauth
        .oidc
        .iter()
        .map(|oidc| {
            json!({
                "name": oidc.name, "issuer": oidc.issuer, "client_id": oidc.client_id, "client_secret": is_set(&oidc.client_secret),
            })
        })
        .collect();
    let oauth2: Vec<_> = oauth
        .oauth2
        .iter()
        .map(|oauth2| json!({ "name": oauth2.name, "client_id": oauth2.client_id, "client_secret": is_set(&oauth2.client_secret) }))
        .collect();
    let mut shown = json!({
        "state_secret": is_set(&oauth.state_secret),
        "state_previous_secrets": oauth.state_previous_secrets.len(),
        "google": oauth.google.as_ref().map(provider),
        "github": oauth.github.as_ref().map(provider),
        "oidc": oidc,
        "oauth2": oauth2,
    });
    for provider in &oauth.presets {
        shown[provider.preset.name] = preset(provider);
    }
    shown
}

/// A provider with a preset, without its secrets.
fn preset(provider: &PresetProvider) -> Value {
    let id = &provider.client_id;
    match &provider.account {
        Account::Secret(secret) => json!({ "client_id": id, "client_secret": is_set(secret) }),
        Account::Microsoft { client_secret, tenant } => {
            json!({ "client_id": id, "client_secret": is_set(client_secret), "tenant": tenant })
        }
        Account::Apple { team_id, key_id, private_key } => {
            json!({ "client_id": id, "team_id": team_id, "key_id": key_id, "private_key": is_set(private_key) })
        }
    }
}

fn roles(roles: &BTreeMap<String, Grants>) -> Value {
    let grants = |grants: &Grants| grants.texts().map(Value::from).collect::<Value>();
    roles.iter().map(|(role, given)| (role.clone(), grants(given))).collect::<Map<_, _>>().into()
}

fn entity(entity: &Entity) -> Value {
    json!({
        "name": entity.name(),
        "table": entity.table_name(),
        "public": entity.is_public(),
        "owned": entity.is_owned(),
        "multi_tenant": entity.is_multi_tenant(),
        "has_access": entity.has_access(),
        "has_rules": entity.has_rules(),
    })
}

fn consumer(consumer: &Consumer) -> Value {
    let delivery = match &consumer.delivery {
        Delivery::Webhook { url, secret, .. } => {
            // A webhook's address may contain a token in its path or its query.
            let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
            json!({ "host": host, "secret": is_set(secret) })
        }
        Delivery::Pull => json!({ "pull": true }),
    };
    json!({
        "name": consumer.name,
        "event": consumer.event,
        "entities": consumer.entities,
        "previous": consumer.previous,
        "delivery": delivery,
    })
}

/// Scheme, host and port of an address that may contain a password.
fn of_secret(secret: &Secret) -> Value {
    let Ok(url) = Url::parse(secret.expose()) else { return is_set(secret) };
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{}://{host}:{port}", url.scheme()).into(),
        (Some(host), None) => format!("{}://{host}", url.scheme()).into(),
        (None, _) => format!("{}:", url.scheme()).into(),
    }
}

fn without_credentials(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn is_set(secret: &Secret) -> Value {
    if secret.is_empty() { "(not set)".into() } else { "(set)".into() }
}
