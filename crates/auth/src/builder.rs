use std::sync::{Arc, OnceLock};

use axum::Router;
use gatewright_base::Ambient;
use gatewright_db::{Db, Step, legacy};
use gatewright_http::{Origin, RedirectUrls, TrustedProxies, layers};
use gatewright_limits::{MemoryStore, Store};
use gatewright_tenancy::TenantStore;
use tokio::sync::{Mutex, Semaphore};
use tower::ServiceBuilder;

use crate::account_events::{AccountEventSink, AccountEvents};
use crate::audit::{self, Audit, AuditSink, SqlAuditSink};
use crate::auth::Auth;
use crate::background::{Background, UncutLayer};
use crate::config::{AuthConfig, Registration};
use crate::core::Core;
use crate::core::Screens;
use crate::credentials::Credentials;
use crate::devices::{self, DeviceCookie, Devices};
use crate::foundation::{Foundation, Tools, Users};
use crate::guests::LastSweep;
use crate::init_error::AuthInitError;
use crate::jwt::{self, JwtAlgorithm, Jwts};
use crate::legacy::legacy_booleans;
use crate::live_limits::LiveLimits;
use crate::mail::{Mailer, Notices, Post};
use crate::middleware::AuthenticateLayer;
use crate::operators;
use crate::password::Passwords;
use crate::password_marker::PasswordMarker;
use crate::plugins::accounts::ProviderLinks;
use crate::plugins::invitations::{self, SentInvitations};
use crate::plugins::{MakeRoutes, MakeSection, Plugin, Prepared};
use crate::removal;
use crate::restricted::RestrictedLayer;
use crate::returning::ReturningLayer;
use crate::schemes::{Authenticator, JwtScheme, Scheme, Schemes, SessionScheme};
use crate::screens as pages;
use crate::session::impersonations::Impersonations;
use crate::session::{
    self, Lookup, MemorySessionStore, Mint, Resolver, SecondFactor, SessionCookie, SessionStore, SqlSessionStore,
};
use crate::single_use::{self, MemorySingleUseStore, SingleUseStore, SqlSingleUseStore};
use crate::stream_tickets::{self, tickets::Tickets};
use crate::users::{self, SqlUserStore, UserStore};

/// Builds an [`Auth`]. From [`Auth::builder`].
///
/// A database is enough: it stores users, sessions and the data of plugins. A host with its own users adds a
/// [`UserStore`], or uses it without a database.
pub struct AuthBuilder {
    config: AuthConfig,
    ambient: Ambient,
    db: Option<Db>,
    users: Option<Arc<dyn UserStore>>,
    sessions: Option<Arc<dyn SessionStore>>,
    audit: AuditTo,
    account_events: Option<Arc<dyn AccountEventSink>>,
    mailer: Option<Arc<dyn Mailer>>,
    single_use: Option<Arc<dyn SingleUseStore>>,
    limit_store: Option<Arc<dyn Store>>,
    proxies: Option<TrustedProxies>,
    plugins: Vec<Box<dyn Plugin>>,
    second_factors: Vec<Arc<dyn SecondFactor>>,
    schemes: Schemes,
    serves: bool,
}

enum AuditTo {
    Nobody,
    Database,
    Sink(Arc<dyn AuditSink>),
}

type Stores = (Arc<dyn UserStore>, Arc<dyn SessionStore>, Lookup);

impl Auth {
    /// A builder with this configuration.
    pub fn builder(config: AuthConfig) -> AuthBuilder {
        AuthBuilder::new(config)
    }
}

impl AuthBuilder {
    pub(crate) fn new(config: AuthConfig) -> Self {
        Self {
            config,
            ambient: Ambient::system(),
            db: None,
            users: None,
            sessions: None,
            audit: AuditTo::Nobody,
            account_events: None,
            mailer: None,
            single_use: None,
            limit_store: None,
            proxies: None,
            plugins: Vec::new(),
            second_factors: Vec::new(),
            schemes: Schemes::new(),
            serves: true,
        }
    }

    /// Stores in `db` everything for which no other store is given.
    pub fn database(mut self, db: Db) -> Self {
        self.db = Some(db);
        self
    }

    /// Uses the host's own users.
    pub fn users(mut self, store: Arc<dyn UserStore>) -> Self {
        self.users = Some(store);
        self
    }

    /// Uses the host's own sessions.
    pub fn sessions(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.sessions = Some(store);
        self
    }

    /// Sends audit events to `sink`. Without this and [`audit_to_database`](Self::audit_to_database) nothing is audited.
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.audit = AuditTo::Sink(sink);
        self
    }

    /// Sends audit events to the table `audit_log` of the database.
    pub fn audit_to_database(mut self) -> Self {
        self.audit = AuditTo::Database;
        self
    }

    /// Tells `sink` what happens to accounts, if they and their sessions are in the tables of this crate.
    pub fn account_events(mut self, sink: Arc<dyn AccountEventSink>) -> Self {
        self.account_events = Some(sink);
        self
    }

    /// Sends mails by `mailer`. Without one, plugins that need it answer 503, except in dev mode.
    pub fn mailer(mut self, mailer: Arc<dyn Mailer>) -> Self {
        self.mailer = Some(mailer);
        self
    }

    /// Uses the host's own store for the tokens in mailed links.
    pub fn single_use_tokens(mut self, store: Arc<dyn SingleUseStore>) -> Self {
        self.single_use = Some(store);
        self
    }

    /// Counts attempts in `store`, shared by replicas. Without one they count per process.
    pub fn limit_store(mut self, store: Arc<dyn Store>) -> Self {
        self.limit_store = Some(store);
        self
    }

    /// The proxies whose `X-Forwarded-For` limiters trust, instead of those in the request's extensions.
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.proxies = Some(proxies);
        self
    }

    /// Takes time and randomness from `ambient`.
    pub fn ambient(mut self, ambient: Ambient) -> Self {
        self.ambient = ambient;
        self
    }

    /// Adds a plugin. The core, [`PasswordPlugin`](crate::plugins::password::PasswordPlugin), comes first.
    pub fn plugin(mut self, plugin: impl Plugin) -> Self {
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Adds a second factor of the host's own.
    pub fn second_factor(mut self, factor: Arc<dyn SecondFactor>) -> Self {
        self.second_factors.push(factor);
        self
    }

    /// Adds a credential scheme of the host's own, called last.
    pub fn scheme(mut self, scheme: Arc<dyn Scheme>) -> Self {
        self.schemes.push(scheme);
        self
    }

    /// For tools that manage accounts and serve no requests: keys of JWTs are neither made nor changed.
    pub fn serving_nobody(self) -> Self {
        Self { serves: false, ..self }
    }

    /// The tables in the database, as components and their steps, for `migrate` and `pending` of `gatewright_db`.
    pub fn components(&self) -> Vec<(&'static str, &'static [Step])> {
        if self.db.is_none() {
            return Vec::new();
        }
        let mut components = vec![
            ("audit", audit::MIGRATIONS),
            (stream_tickets::COMPONENT, stream_tickets::MIGRATIONS),
            (devices::COMPONENT, devices::MIGRATIONS),
            (removal::COMPONENT, removal::MIGRATIONS),
            (operators::COMPONENT, operators::MIGRATIONS),
            (jwt::keys::COMPONENT, jwt::keys::MIGRATIONS),
            (session::impersonations::COMPONENT, session::impersonations::MIGRATIONS),
            (gatewright_tenancy::INVITATIONS, gatewright_tenancy::INVITATION_STEPS),
        ];
        if self.users.is_none() {
            components.push(("users", users::MIGRATIONS));
            components.push((devices::OWNERS, devices::OWNERS_OF_BEFORE));
        }
        if self.sessions.is_none() {
            components.push(("sessions", session::MIGRATIONS));
        }
        if self.single_use.is_none() {
            components.push(("single_use", single_use::MIGRATIONS));
        }
        let of_plugins = self.plugins.iter().map(|plugin| (plugin.name(), plugin.migrations()));
        components.extend(of_plugins.filter(|(_, steps)| !steps.is_empty()));
        components
    }

    /// Checks everything, creates or migrates the tables, and builds. Missing parts are found here, and not by the
    /// first request.
    #[expect(clippy::too_many_lines, reason = "it assembles every part, in the order of their needs")]
    pub async fn build(mut self) -> Result<Auth, AuthInitError> {
        self.config.check()?;
        let (jwt, dev_mode) = (&self.config.jwt, self.config.dev_mode);
        let jwts = Jwts::new(jwt, dev_mode, self.db.clone(), self.ambient.clone())?;
        let signs_id_tokens = self.plugins.iter().any(|plugin| plugin.signs_id_tokens());
        let jwts = Arc::new(if signs_id_tokens { jwts.with_id_tokens(jwt, self.db.as_ref()) } else { jwts });
        let keeps_keys = self.db.is_some() || !jwt.keys.files.is_empty() || jwt.algorithm == JwtAlgorithm::Hs256;
        if !keeps_keys && !dev_mode && !self.config.allow_in_memory_stores {
            return Err(AuthInitError::InMemoryStore { store: "JWT key" });
        }
        for (index, plugin) in self.plugins.iter().enumerate() {
            if self.plugins[..index].iter().any(|other| other.name() == plugin.name()) {
                return Err(AuthInitError::DuplicatePlugin(plugin.name()));
            }
        }
        let components = self.components();
        let (users, sessions, lookup) = self.stores()?;
        self.ready_tables(&components).await?;
        if self.serves {
            jwts.start(self.users.is_none()).await?;
        }
        let foundation = self.foundation(users, sessions, jwts);
        if let Some(stored) = &foundation.users.hash_settings {
            let stored = stored.hash_settings().await?;
            stored.log_unusable(self.config.allow_weak_hashes);
            foundation.passwords.stored_settings(stored.settings);
        }
        let mut prepared = Prepared::new();
        let (mut routes, mut screens) = (Vec::<MakeRoutes>::new(), Vec::<MakeRoutes>::new());
        let mut sections = Vec::<MakeSection>::new();
        for plugin in std::mem::take(&mut self.plugins) {
            let mut more = plugin.prepare(&foundation)?;
            routes.extend(more.routes.take());
            screens.extend(more.screens.take());
            sections.append(&mut more.account_sections);
            prepared.absorb(more);
        }
        // Whether or not the plugin is enabled: a link that is unusable now would work as soon as the plugin is enabled
        // again.
        let links = ProviderLinks::of(&foundation, &prepared);
        prepared.credentials.extend(links.map(|links| Arc::new(links) as Arc<dyn Credentials>));
        if let Some(invitations) = prepared.invitations.clone() {
            prepared.credentials.push(Arc::new(SentInvitations::new(invitations, self.ambient.clone())));
        }
        prepared.schemes.append(&mut self.schemes);
        prepared.second_factors.append(&mut self.second_factors);

        let config = &foundation.config;
        demands_are_met(config, &prepared)?;
        let cookie = SessionCookie::new(config.secure_cookies(), config.session_ttl);
        let impersonations = Impersonations::of(&foundation)?;
        let resolver = Resolver::new(lookup, foundation.sessions.clone(), impersonations.clone(), self.ambient.clone());
        let authenticator = authenticator(&foundation, cookie, resolver, prepared.schemes, prepared.tenants.clone());
        let mint =
            Mint::new(foundation.sessions.clone(), prepared.second_factors, config.session_ttl, self.ambient.clone());
        let mint = mint.require_verified_email(config.require_verified_email).impersonations(impersonations.clone());
        let password_marker = PasswordMarker::new(&config.jwt, config.secure_cookies(), self.ambient.clone());
        let device_cookie = DeviceCookie::new(&config.jwt, config.secure_cookies(), &self.ambient);
        let notices = Notices::new(&foundation);
        let devices = self.db.clone().map(|db| Devices::new(db, self.ambient.clone()));
        let origin = config.public_url.as_ref().and_then(Origin::of);
        let deletions = foundation.db.clone().map(removal::Deletions::new);
        let operator_accounts = foundation.db.clone().map(operators::OperatorAccounts::new);
        let core = Arc::new(Core {
            foundation,
            mint,
            cookie,
            origin,
            #[cfg(feature = "oauth")]
            oauth_tokens: prepared.oauth_tokens,
            oauth_providers: prepared.oauth_providers,
            credentials: prepared.credentials,
            stream_tickets: authenticator.tickets.clone(),
            invitations: prepared.invitations,
            verification: prepared.verification,
            email_changes: prepared.email_changes,
            deletions,
            operator_accounts,
            impersonations,
            guest_sweep: LastSweep::default(),
            deletion_turns: Arc::new(Semaphore::new(removal::TURNS)),
            records: OnceLock::new(),
            password_marker,
            devices,
            device_cookie,
            notices,
            tokens: prepared.tokens,
            tenants: prepared.tenants,
            profiles: prepared.profiles,
            sign_in_credentials: prepared.sign_in_credentials,
            removals: Mutex::new(()),
            screens: OnceLock::new(),
        });

        let authenticator = Arc::new(authenticator);
        let of_tickets = core
            .stream_tickets
            .clone()
            .map_or_else(Router::new, |tickets| stream_tickets::routes(&core, authenticator.clone(), tickets));
        let layer = AuthenticateLayer(authenticator);
        let guard = RestrictedLayer::new(&core.config.base_path);
        let make = prepared.authorization_server;
        let server_and_task = make.map(|make| make(&core).ok_or_else(without_tokens)).transpose()?;
        let (authorization_server, task) = server_and_task.map_or((None, None), |(server, task)| (Some(server), task));
        task.filter(|_| self.serves).map(tokio::spawn);
        let merged =
            |makers: Vec<MakeRoutes>, more: Router| makers.into_iter().fold(more, |all, make| all.merge(make(&core)));
        let of_server =
            authorization_server.as_ref().map_or_else(Router::new, |server| server.routes.clone()).merge(of_tickets);
        let of_server = of_server.merge(pages::language::routes(&core)).merge(invitations::routes(&core));
        // One layer of the router each: every one costs a boxed service and a boxed future for each request.
        let returning = ReturningLayer::new(core.redirects.clone());
        let uncut = UncutLayer(core.background.clone());
        let around = ServiceBuilder::new()
            .layer(uncut.clone())
            .layer(returning.clone())
            .layer(layers::NoStoreLayer)
            .layer(layer.clone())
            .layer(guard.clone());
        let mounted = merged(routes, of_server).layer(around);
        let sections = sections.into_iter().map(|make| make(&core));
        let sections = sections.chain(authorization_server.iter().map(|server| server.section.clone())).collect();
        let account = pages::account::routes(core.clone(), sections);
        let screen_routes = merged(screens, account);
        let of_server = authorization_server.as_ref().map_or_else(Router::new, |server| server.screens.clone());
        let screen_routes = screen_routes.merge(of_server);
        let screen_routes =
            screen_routes.layer(ServiceBuilder::new().layer(uncut).layer(returning).layer(layer.clone()).layer(guard));
        let known = Screens {
            sign_in_links: prepared.sign_in_links,
            link_by_mail: prepared.link_by_mail,
            code_by_mail: prepared.code_by_mail,
            passkeys: prepared.passkeys,
            second_factor: prepared.second_factor_screen,
        };
        Ok(Auth::new(core, layer, mounted, screen_routes, known, authorization_server))
    }

    /// The stores, and how a cookie finds its way to both of them.
    fn stores(&self) -> Result<Stores, AuthInitError> {
        let ambient = || self.ambient.clone();
        let events = AccountEvents::new(self.account_events.clone().filter(|_| self.users.is_none()));
        let users: Arc<dyn UserStore> = match (&self.users, &self.db) {
            (Some(users), _) => users.clone(),
            (None, Some(db)) => Arc::new(SqlUserStore::new(db.clone(), ambient()).telling(events.clone())),
            (None, None) => return Err(AuthInitError::NoUserStore),
        };
        let sql_sessions =
            self.db.as_ref().map(|db| SqlSessionStore::new(db.clone(), ambient()).telling(events.clone()));
        let sessions: Arc<dyn SessionStore> = match (&self.sessions, &sql_sessions) {
            (Some(sessions), _) => sessions.clone(),
            (None, Some(sql)) => Arc::new(sql.clone()),
            (None, None) => Arc::new(MemorySessionStore::new(ambient())),
        };
        if sessions.in_memory() && !self.config.dev_mode && !self.config.allow_in_memory_stores {
            return Err(AuthInitError::InMemoryStore { store: "session" });
        }
        let lookup = match sql_sessions {
            Some(sql) if self.users.is_none() && self.sessions.is_none() => Lookup::Joined(sql),
            _ => Lookup::Separate(users.clone()),
        };
        Ok((users, sessions, lookup))
    }

    async fn ready_tables(&self, components: &[(&'static str, &'static [Step])]) -> Result<(), AuthInitError> {
        let Some(db) = &self.db else { return Ok(()) };
        let mut missing = Vec::new();
        for (name, steps) in components.iter().copied() {
            if self.config.create_tables {
                legacy::migrate(db, name, steps, legacy_booleans(name)).await?;
            } else if !legacy::pending(db, name, steps, legacy_booleans(name)).await?.is_empty() {
                missing.push(name);
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(AuthInitError::TablesMissing(missing)) }
    }

    fn foundation(
        &mut self,
        users: Arc<dyn UserStore>,
        sessions: Arc<dyn SessionStore>,
        jwts: Arc<Jwts>,
    ) -> Foundation {
        let ambient = self.ambient.clone();
        let sink = match (std::mem::replace(&mut self.audit, AuditTo::Nobody), &self.db) {
            (AuditTo::Sink(sink), _) => Some(sink),
            (AuditTo::Database, Some(db)) => {
                Some(Arc::new(SqlAuditSink::new(db.clone(), ambient.clone())) as Arc<dyn AuditSink>)
            }
            (AuditTo::Database, None) | (AuditTo::Nobody, _) => None,
        };
        let limit_store = self.limit_store.take();
        let redirects = RedirectUrls::parse(&self.config.redirect_urls).unwrap_or_default();
        let redirects = redirects.own_origin(self.config.public_url.as_ref().and_then(Origin::of));
        let redirects = match &self.config.app_url {
            Some(url) => redirects.clone().home(url).unwrap_or(redirects),
            None => redirects,
        };
        let single_use: Arc<dyn SingleUseStore> = match (self.single_use.take(), &self.db) {
            (Some(store), _) => store,
            (None, Some(db)) => Arc::new(SqlSingleUseStore::new(db.clone())),
            (None, None) => Arc::new(MemorySingleUseStore::new()),
        };
        let background = Background::new();
        Foundation(Arc::new(Tools {
            passwords: Passwords::new(self.config.password, ambient.clone())
                .with_policy(self.config.password_policy, self.config.public_url.as_ref().and_then(url::Url::host_str))
                .with_weak_hashes(self.config.allow_weak_hashes),
            config: self.config.clone(),
            db: self.db.clone(),
            users: Users::new(users),
            sessions,
            jwts,
            audit: Audit::new(sink, ambient.clone()),
            post: Post::new(self.mailer.take(), background.clone()),
            single_use,
            redirects: redirects.log_refused(self.config.dev_mode),
            background,
            limit_store: limit_store.unwrap_or_else(|| Arc::new(MemoryStore::new(ambient.clone()))),
            live_limits: LiveLimits::default(),
            proxies: self.proxies.take(),
            ambient,
        }))
    }
}

fn without_tokens() -> AuthInitError {
    AuthInitError::MissingCapability {
        plugin: "authorization_server",
        store: "API token",
        capability: "delegated tokens",
        remedy: "add the tokens plugin, with a store that has them",
    }
}

/// Refuses a policy that no plugin can carry out.
fn demands_are_met(config: &AuthConfig, prepared: &Prepared) -> Result<(), AuthInitError> {
    let wrong = |setting, problem: &str| Err(AuthInitError::Setting { setting, problem: problem.to_owned() });
    if config.require_verified_email && prepared.verification.is_none() {
        return wrong("require_verified_email", "it needs the email_verification plugin, which mails the links");
    }
    if config.registration == Registration::Invite && prepared.invitations.is_none() {
        return wrong("registration", "\"invite\" needs the invitations plugin");
    }
    Ok(())
}

/// The session cookie first, then JWT, then the schemes of plugins and of the program.
fn authenticator(
    foundation: &Foundation,
    cookie: SessionCookie,
    resolver: Resolver,
    more: Schemes,
    tenants: Option<Arc<dyn TenantStore>>,
) -> Authenticator {
    let users = foundation.users.store.clone();
    let mut schemes: Schemes = vec![
        Arc::new(SessionScheme { cookie, resolver: Arc::new(resolver) }),
        Arc::new(JwtScheme { jwts: foundation.jwts.clone(), users: users.clone() }),
    ];
    schemes.extend(more);
    let ambient = foundation.ambient.clone();
    let tenant = foundation.config.tenant_header.clone();
    let tickets = foundation.db.clone().map(|db| Tickets::new(db, ambient.clone(), tenant));
    Authenticator { schemes, users, ambient, tickets, tenants }
}

impl std::fmt::Debug for AuthBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plugins: Vec<_> = self.plugins.iter().map(|plugin| plugin.name()).collect();
        f.debug_struct("AuthBuilder").field("plugins", &plugins).finish_non_exhaustive()
    }
}
