//! Converts the configuration into each crate's own types.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::jwt::JwtConfig;
use gatewright_auth::plugins::account_deletion::AccountDeletionPlugin;
use gatewright_auth::plugins::account_export::AccountExportPlugin;
use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::email_code::EmailCodePlugin;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::guests::GuestsPlugin;
use gatewright_auth::plugins::invitations::InvitationsPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use gatewright_auth::plugins::password::PasswordPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tenants::TenantsPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::{AccountPage, Auth, AuthBuilder, AuthConfig, Guests, Impersonation};
use gatewright_base::{Ambient, Budget, RolePermissions};
use gatewright_db::{Db, OpenError, Options};
use gatewright_entities::answers::{AnswerOptions, AnswersInitError, KeptAnswers};
use gatewright_entities::schema::Users;
use gatewright_entities::tenancy::{MembershipsInitError, SqlMemberships};
use gatewright_entities::{Builder as EntitiesBuilder, Entities, Entity, ExportLimits, Tables};
use gatewright_events::fanout::{ChannelError, Fanout as Backend, PostgresFanout};
use gatewright_events::outbox::webhook::{SigningSecret, Webhook, WebhookError};
use gatewright_events::outbox::{
    ConsumerError, InitError, Outbox, OutboxOptions, Previous, PullConsumer, Pulls, RelayBuilder,
};
use gatewright_events::{Bus, EventLog, LogOptions, StreamOptions, Streams, log};
use gatewright_http::Origin;

use super::account_events::{self, AccountOutbox};
use super::{authorization_server, profiles};
use crate::Config;
use crate::carriers::{nats_fanout, redis_fanout};
use crate::config::{Delivery, Fanout, Plugin};

/// Opens the configuration's database.
pub(crate) async fn open(config: &Config) -> Result<Db, OpenError> {
    let connections = NonZeroUsize::new(config.database.max_connections).unwrap_or(NonZeroUsize::MIN);
    let options = Options {
        max_connections: connections,
        // A request that has ended needs no list.
        list_timeout: config.database.list_timeout.min(config.server.request_timeout),
        search_bytes: config.database.list_search_bytes,
        create_file: config.database.create_file,
        direct_url: config.database.direct_url.clone(),
        ..Options::default()
    };
    Db::open(config.database.url.expose(), options).await
}

/// Authentication over the database; `None` if it is disabled.
/// The builder of accounts, which tells `events` what happens to them.
pub(crate) fn auth(
    config: &Config,
    db: &Db,
    ambient: &Ambient,
    events: Option<&Arc<AccountOutbox>>,
) -> Option<AuthBuilder> {
    if !config.auth.enabled {
        return None;
    }
    let mut builder = Auth::builder(auth_config(config))
        .database(db.clone())
        .ambient(ambient.clone())
        .trusted_proxies(config.server.trusted_proxies.clone());
    builder = account_events::told(builder, events);
    if config.audit.enabled {
        builder = builder.audit_to_database();
    }
    for plugin in config.plugins() {
        builder = match plugin {
            Plugin::Core => builder.plugin(PasswordPlugin).plugin(GuestsPlugin),
            Plugin::TwoFactor => builder.plugin(TwoFactorPlugin::new(config.auth.two_factor_issuer.clone())),
            Plugin::MagicLink => builder.plugin(magic_link(config)),
            Plugin::EmailCode => builder.plugin(EmailCodePlugin),
            Plugin::EmailVerification => {
                builder.plugin(EmailVerificationPlugin::new().ttl(config.auth.email_verification_ttl))
            }
            Plugin::PasswordReset => builder.plugin(PasswordResetPlugin::new().ttl(config.auth.password_reset_ttl)),
            Plugin::Tokens => builder.plugin(TokensPlugin::new()),
            #[cfg(feature = "oauth")]
            Plugin::OAuth => builder.plugin(super::providers::plugin(&config.auth.oauth)),
            // Without providers there is no way to sign in, and the configuration's check refuses providers.
            #[cfg(not(feature = "oauth"))]
            Plugin::OAuth => builder,
            Plugin::Accounts => builder.plugin(AccountsPlugin),
            Plugin::EmailChange => builder.plugin(EmailChangePlugin::new()),
            Plugin::Invitations => builder.plugin(InvitationsPlugin::new()),
            Plugin::Passkeys => builder.plugin(passkeys(config)),
            Plugin::AccountDeletion => builder.plugin(AccountDeletionPlugin),
            Plugin::AccountExport => builder.plugin(AccountExportPlugin),
        };
    }
    if has_tenants(config) {
        let store = SqlMemberships::new(db.clone(), ambient.clone());
        let store = Arc::new(account_events::told_of_members(store, events));
        let plugin = TenantsPlugin::new(store).roles(config.tenancy.roles.keys());
        builder = builder.plugin(plugin.self_service(config.tenancy.self_service));
    }
    if let Some(plugin) = profiles::plugin(config) {
        builder = builder.plugin(plugin);
    }
    if config.authorization_server.enabled {
        builder = builder.plugin(authorization_server::plugin(config));
    }
    Some(builder)
}

fn passkeys(config: &Config) -> PasskeysPlugin {
    let passkeys = &config.auth.passkeys;
    let plugin = PasskeysPlugin::new(config.auth.two_factor_issuer.clone()).origins(&passkeys.origins);
    passkeys.rp_id.iter().fold(plugin, PasskeysPlugin::rp_id)
}

fn magic_link(config: &Config) -> MagicLinkPlugin {
    let plugin = MagicLinkPlugin::new().ttl(config.auth.magic_link_ttl);
    match &config.auth.magic_link_template {
        // One that cannot be read is empty, and an empty one is refused.
        Some(path) => plugin.template(std::fs::read_to_string(path).unwrap_or_default()),
        None => plugin,
    }
}

/// The declared entities over the database.
pub(crate) fn entities(config: &Config, db: &Db, ambient: &Ambient) -> EntitiesBuilder {
    let builder = Entities::builder(db.clone(), ambient.clone());
    // Without a secret, as in dev mode or on a server without accounts, cursors are only valid until the process ends.
    let secret = &config.auth.jwt_secret;
    let previous = &config.auth.jwt_previous_secrets;
    let builder = if secret.is_empty() { builder } else { builder.secret(secret).previous_secrets(previous) };
    let origin = Origin::of(&config.public_url());
    origin
        .into_iter()
        .fold(builder, EntitiesBuilder::public_origin)
        .declare_all(config.declared())
        .roles(RolePermissions::new(config.roles.clone()))
        .tenant_roles(RolePermissions::new(config.tenancy.roles.clone()))
        .scope_guard(true)
        .json_case(config.server.json_case)
        .users(users(config))
        .tables(tables(config))
        .tenant_header(config.tenancy.header())
        .lists(config.database.lists)
        .exports(ExportLimits { time: config.server.export_timeout, ..ExportLimits::default() })
}

/// Whether invitations are possible: to create an account, or to a tenant.
pub(crate) fn invites(config: &Config) -> bool {
    has_tenants(config) || config.plugins().contains(&Plugin::Invitations)
}

/// Whether entities are declared whose callers must belong to a tenant.
pub(crate) fn has_tenants(config: &Config) -> bool {
    config.entities.iter().any(Entity::is_multi_tenant)
}

/// The memberships in the database, their table made or looked for.
pub(crate) async fn memberships(
    config: &Config,
    db: &Db,
    ambient: &Ambient,
) -> Result<SqlMemberships, MembershipsInitError> {
    SqlMemberships::open(db.clone(), ambient.clone(), config.database.create_tables).await
}

fn tables(config: &Config) -> Tables {
    if config.database.create_tables { Tables::Create } else { Tables::Check }
}

/// The outbox over the database; `None` if it is disabled. Functions want the earlier values of the `previous` entities.
pub(crate) async fn outbox(
    config: &Config,
    previous: &[String],
    db: &Db,
    ambient: &Ambient,
    budget: &Budget,
) -> Result<Option<Outbox>, InitError> {
    let outbox = &config.outbox;
    let consumers = outbox.consumers.iter().filter(|consumer| consumer.previous);
    let functions = Previous::default().and(Some(previous));
    if !outbox.enabled {
        return Ok(None);
    }
    let options = OutboxOptions {
        poll_interval: outbox.poll_interval,
        max_attempts: outbox.max_attempts,
        handler_grace: outbox.handler_grace,
        lease: outbox.lease,
        retention: outbox.retention,
        max_bytes: outbox.max_bytes,
        create_tables: config.database.create_tables,
        json_case: config.server.json_case,
        previous: consumers.fold(functions, |previous, consumer| previous.and(consumer.entities.as_deref())),
        budget: budget.clone(),
        ..OutboxOptions::default()
    };
    Outbox::open(db.clone(), ambient.clone(), options).await.map(Some)
}

/// The answers to requests with an `Idempotency-Key`.
pub(crate) async fn answers(config: &Config, db: &Db, ambient: &Ambient) -> Result<KeptAnswers, AnswersInitError> {
    let options =
        AnswerOptions { max_bytes: config.server.idempotency_max_bytes, create_tables: config.database.create_tables };
    KeptAnswers::open(db.clone(), ambient.clone(), options).await
}

/// The fan-out of events between replicas; `None` if there is none. Without a separate address, Postgres uses `db`.
pub(crate) async fn fanout(
    config: &Config,
    db: &Db,
    ambient: &Ambient,
) -> Result<Option<Arc<dyn Backend>>, ChannelError> {
    let Some(fanout) = config.events.fanout.filter(|_| config.events.enabled) else { return Ok(None) };
    let url = config.events.fanout_url.as_ref();
    let missing = || ChannelError::Url("it is missing".to_owned());
    Ok(Some(match fanout {
        Fanout::Postgres => {
            let backend = match url {
                Some(url) => PostgresFanout::open(url, ambient).await?,
                None => PostgresFanout::new(db.clone(), ambient)?,
            };
            backend.prepare(config.database.create_tables).await?;
            Arc::new(backend)
        }
        Fanout::Redis => redis_fanout(url.ok_or_else(missing)?)?,
        Fanout::Nats => nats_fanout(url.ok_or_else(missing)?)?,
    }))
}

/// A relay with the configuration's webhooks as consumers.
pub(crate) fn webhooks(config: &Config, outbox: &Outbox, ambient: &Ambient) -> Result<RelayBuilder, WebhookError> {
    let private_networks = config.outbox.allow_private_networks.unwrap_or(config.server.dev_mode);
    config.outbox.consumers.iter().try_fold(outbox.relay(), |relay, consumer| {
        let Delivery::Webhook { url, secret, previous_secret } = &consumer.delivery else { return Ok(relay) };
        let mut webhook = Webhook::new(&consumer.name, &consumer.event, url, SigningSecret::parse(secret)?)?;
        if let Some(previous) = previous_secret {
            webhook = webhook.also_signed_with(SigningSecret::parse(previous)?);
        }
        if let Some(entities) = &consumer.entities {
            webhook = webhook.entities(entities.clone());
        }
        let webhook = webhook.previous(consumer.previous);
        let consumer = webhook.private_networks(private_networks).into_consumer(ambient.clone())?;
        Ok(relay.declare(consumer)?)
    })
}

/// The configured pull consumers; `None` if there are none.
pub(crate) fn pulls(config: &Config, outbox: &Outbox) -> Result<Option<Pulls>, ConsumerError> {
    let mut consumers = Vec::new();
    for consumer in config.outbox.consumers.iter().filter(|consumer| matches!(consumer.delivery, Delivery::Pull)) {
        let pulling = PullConsumer::new(&consumer.name, &consumer.event)?.previous(consumer.previous);
        consumers.push(match &consumer.entities {
            Some(entities) => pulling.entities(entities.clone()),
            None => pulling,
        });
    }
    Ok((!consumers.is_empty()).then(|| Pulls::new(outbox, consumers)))
}

/// Where relations to users lead.
pub(crate) fn users(config: &Config) -> Users {
    if config.auth.enabled { Users::default() } else { Users::Elsewhere }
}

/// The event log in the database; `None` if it is disabled.
pub(crate) async fn log(
    config: &Config,
    db: &Db,
    ambient: &Ambient,
    budget: &Budget,
) -> Result<Option<EventLog>, log::InitError> {
    if !has_log(config) {
        return Ok(None);
    }
    let options = LogOptions {
        keep: config.events.replay,
        keep_bytes: config.events.replay_bytes,
        create_tables: config.database.create_tables,
        // A row that is too much is removed once it is dispatched: after the grace.
        share_staged: config.outbox.retention.is_none_or(|retention| retention >= config.events.replay)
            && (config.outbox.max_bytes == 0 || config.outbox.handler_grace >= config.events.replay),
        budget: budget.clone(),
        ..LogOptions::default()
    };
    EventLog::open(db.clone(), ambient.clone(), options).await.map(Some)
}

/// Whether events are logged.
pub(crate) fn has_log(config: &Config) -> bool {
    config.events.enabled && !config.events.replay.is_zero()
}

/// The event streams over the bus.
pub(crate) fn streams(config: &Config, bus: &Bus, log: Option<&EventLog>, budget: &Budget) -> Streams {
    let events = &config.events;
    if !events.enabled {
        return Streams::disabled();
    }
    let options = StreamOptions {
        json_case: config.server.json_case,
        heartbeat: events.heartbeat,
        max_subscribers: events.max_subscribers,
        max_subscribers_per_caller: events.max_subscribers_per_caller,
        max_subscribers_per_address: events.max_subscribers_per_address,
        allow_client_slow_mode: events.allow_client_slow_mode,
        log: log.cloned(),
        block_timeout: events.block_timeout,
        budget: budget.clone(),
        ..StreamOptions::default()
    };
    Streams::start(bus, options)
}

fn auth_config(config: &Config) -> AuthConfig {
    let auth = &config.auth;
    #[cfg(feature = "mcp")]
    let tools_path = Some(crate::mcp::PATH.to_owned());
    #[cfg(not(feature = "mcp"))]
    let tools_path = None;
    AuthConfig {
        dev_mode: config.server.dev_mode,
        base_path: auth.base_path.clone(),
        public_url: Some(config.public_url()),
        tools_path,
        registration: auth.registration,
        require_verified_email: auth.require_verified_email,
        new_device_notice: auth.new_device_notice,
        redirect_urls: auth.redirect_urls.clone(),
        app_url: config.server.app_url.clone(),
        jwt: JwtConfig {
            secret: auth.jwt_secret.clone(),
            previous_secrets: auth.jwt_previous_secrets.clone(),
            expiry: auth.jwt_expiry,
            algorithm: auth.jwt_algorithm,
            keys: auth.keys.of_auth(),
        },
        session_ttl: auth.session_ttl,
        default_roles: auth.default_roles.clone(),
        password: auth.password,
        password_policy: auth.password_policy,
        allow_weak_hashes: auth.allow_weak_hashes,
        allow_in_memory_stores: auth.allow_in_memory_stores,
        create_tables: config.database.create_tables,
        tokens_in_responses: config.browser_backend.is_none(),
        always_secure_cookies: config.browser_backend.is_some(),
        audit_retention: config.audit.retention,
        tenant_header: Some(config.tenancy.header()),
        guests: auth.guests.then(|| Guests { idle: Duration::from_hours(u64::from(auth.guest_days) * 24) }),
        impersonation: auth.impersonation.then(|| Impersonation {
            role: config.admin.role.clone(),
            require_two_factor: config.admin.require_two_factor,
        }),
        account_pages: auth.account_pages.clone().unwrap_or_else(|| AccountPage::ALL.to_vec()),
        limits: auth.limits,
    }
}
