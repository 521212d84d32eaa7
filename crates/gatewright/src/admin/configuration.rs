//! The running configuration without secrets. What is shown is listed here: a key that is new is not shown until somebody
//! has decided that it may be.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use gatewright_base::Secret;
use serde_json::{Value, json};
use url::Url;

use super::Desk;
use super::answer::data;
use crate::Config;
use crate::config::{Consumer, Delivery};

/// `GET /configuration`.
pub(super) fn routes() -> Router<Desk> {
    Router::new().route("/configuration", get(show))
}

async fn show(State(desk): State<Desk>) -> Json<Value> {
    data(shown(&desk.config))
}

/// Spelled as the file spells it.
fn shown(config: &Config) -> Value {
    let (server, auth, events, outbox) = (&config.server, &config.auth, &config.events, &config.outbox);
    let plugins: Vec<_> = config.plugins().iter().map(|plugin| plugin.as_str()).collect();
    let roles: Vec<_> = config.roles.keys().collect();
    let consumers: Vec<_> = outbox.consumers.iter().map(consumer).collect();
    let entities: Vec<_> = config.entities.iter().map(|entity| entity.name().to_owned()).collect();
    json!({
        "server": {
            "listen": server.listen.to_string(),
            "public_url": without_credentials(&config.public_url()),
            "dev_mode": server.dev_mode,
            "api_prefix": config.api_prefix(),
            "json_case": format!("{:?}", server.json_case).to_lowercase(),
            "request_timeout_seconds": server.request_timeout.as_secs(),
            "max_body_bytes": server.max_body_bytes,
            "max_connections": server.max_connections,
            "memory_budget_bytes": server.memory_budget_bytes,
            "drain_seconds": config.drain().as_secs(),
        },
        "database": {
            "url": of_secret(&config.database.url),
            "direct_url": config.database.direct_url.as_ref().map(of_secret),
            "create_tables": config.database.create_tables,
            "max_connections": config.database.max_connections,
            "list_timeout_ms": u64::try_from(config.database.list_timeout.as_millis()).unwrap_or(u64::MAX),
        },
        "auth": {
            "enabled": auth.enabled,
            "base_path": auth.base_path,
            "jwt_secret": is_set(&auth.jwt_secret),
            "jwt_expiry_seconds": auth.jwt_expiry.as_secs(),
            "session_ttl_seconds": auth.session_ttl.as_secs(),
            "default_roles": auth.default_roles,
            "plugins": plugins,
        },
        "roles": roles,
        "branding": {
            "name": config.branding.name,
            "logo": config.branding.logo,
            "color": config.branding.color,
            "support_url": config.branding.support_url.as_ref().map(url::Url::as_str),
            "languages": config.branding.languages,
            "languages_folder": config.branding.languages_folder.as_ref().map(|folder| folder.display().to_string()),
        },
        "admin": {
            "role": config.admin.role,
            "require_two_factor": config.admin.require_two_factor,
            "fresh_sign_in_seconds": config.admin.fresh.as_secs(),
        },
        "email": config.email.as_ref().map(|email| json!({ "smtp_url": of_secret(&email.smtp_url), "from": email.from })),
        "rate_limit": {
            "store": format!("{:?}", config.rate_limit.store).to_lowercase(),
            "redis_url": config.rate_limit.redis_url.as_ref().map(of_secret),
        },
        "csrf": { "enabled": config.csrf.enabled, "secret": is_set(&config.csrf.secret) },
        "browser_backend": config.browser_backend.as_ref().map(|backend| json!({ "allowed_origins": backend.allowed_origins })),
        "events": {
            "enabled": events.enabled,
            "fanout": events.fanout.map(|fanout| format!("{fanout:?}").to_lowercase()),
            "fanout_url": events.fanout_url.as_ref().map(of_secret),
            "heartbeat_seconds": events.heartbeat.as_secs(),
            "replay_seconds": events.replay.as_secs(),
            "max_subscribers": events.max_subscribers,
        },
        "outbox": {
            "enabled": outbox.enabled,
            "max_attempts": outbox.max_attempts,
            "lease_seconds": outbox.lease.as_secs(),
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
        },
        "mcp": { "enabled": config.mcp.enabled, "anonymous": config.mcp.anonymous },
        "docs": { "enabled": config.docs },
        "entity": entities,
    })
}

fn consumer(consumer: &Consumer) -> Value {
    let delivery = match &consumer.delivery {
        Delivery::Webhook { url, secret, .. } => {
            // A webhook's address may hold a token in its path or its query.
            let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
            json!({ "host": host, "secret": is_set(secret) })
        }
        Delivery::Pull => json!({ "pull": true }),
    };
    json!({ "name": consumer.name, "event": consumer.event, "delivery": delivery })
}

/// Scheme, host and port of an address that may hold a password.
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
