//! The configuration: its settings, how it is read and its checks.
//!
//! [`Config`] holds plain values with defaults. A program that embeds Gatewright fills it in Rust. The server fills it
//! with a [`Loader`]: TOML text becomes a tree whose values have their line and column, environment variables
//! (`GATEWRIGHT__SECTION__KEY`) and flags override it, and each section's `read` takes its keys (`read`). Then
//! [`Config::check`] checks the values, with the same messages for files and programs. All errors are reported
//! together, each with its place.

mod admin;
mod auth;
mod authorization_server;
mod branding;
mod check;
mod database;
mod directory;
mod entity;
mod events;
mod functions;
mod hooks;
mod jobs;
mod keys;
mod limits;
mod listen;
mod loader;
mod log;
mod oauth;
mod oauth2;
mod presets;
mod problem;
mod read;
mod roles;
mod server;
mod storage;
mod surfaces;
mod template;
mod view;
mod written;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use gatewright_base::Grants;
use gatewright_entities::Entity;
use url::Url;

pub use admin::Admin;
pub use auth::{Auth, Plugin};
pub use authorization_server::{AuthorizationServer, Mcp};
pub use branding::Branding;
pub(crate) use branding::LogoPlace;
pub(crate) use check::is_loopback;
pub use check::{Fault, Faults};
pub use database::Database;
pub use directory::{Directory, DirectoryScope};
pub use events::{Consumer, Delivery, Events, Fanout, Outbox};
pub use functions::Functions;
pub use hooks::{Hook, OnHookError};
pub use jobs::Job;
pub use keys::Keys;
pub use limits::{BucketKey, LimitStore, RateLimit, TokenBucket};
pub use listen::{Listen, Tls};
pub use loader::{LoadError, Loader};
pub use log::{Log, LogFormat, LogLevel};
pub use oauth::{Claims, OAuth, OAuthProvider, Oidc};
pub use oauth2::{OAuth2, OAuth2Claims, TokenAuth};
pub use presets::{Account, Addresses, PresetProvider};
pub use problem::{Place, Problem, Problems};
pub use read::{Absent, LISTEN_ADDRESS, Setting, listen_address};
pub use server::Server;
pub use storage::{S3, Storage};
pub use surfaces::{Audit, BrowserBackend, Csrf, Email, Tenancy};
pub use template::{fresh_secret, template};
pub use written::Written;

use read::Section;

/// Everything that can be configured, section by section. [`Config::default`] is the configuration of an empty file.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`
    pub server: Server,
    /// `[database]`
    pub database: Database,
    /// `[log]`
    pub log: Log,
    /// `[auth]`
    pub auth: Auth,
    /// `[roles]`: what each role may do.
    pub roles: BTreeMap<String, Grants>,
    /// `[email]`; without it, no mail can be sent.
    pub email: Option<Email>,
    /// `[storage]`; absent: a folder beside the SQLite database.
    pub storage: Option<Box<Storage>>,
    /// `[rate_limit]`
    pub rate_limit: RateLimit,
    /// `[csrf]`
    pub csrf: Csrf,
    /// `[browser_backend]`; absent: off.
    pub browser_backend: Option<BrowserBackend>,
    /// `[events]`
    pub events: Events,
    /// `[outbox]`
    pub outbox: Outbox,
    /// `[tenancy]`
    pub tenancy: Tenancy,
    /// `[audit]`
    pub audit: Audit,
    /// `[authorization_server]`
    pub authorization_server: AuthorizationServer,
    /// `[mcp]`
    pub mcp: Mcp,
    /// `[admin]`
    pub admin: Admin,
    /// `[branding]`
    pub branding: Branding,
    /// `[functions]`
    pub functions: Functions,
    /// `[[hook]]`
    pub hooks: Vec<Hook>,
    /// `[[job]]`
    pub jobs: Vec<Job>,
    /// `[docs] enabled`: whether the interactive documentation is mounted.
    pub docs: bool,
    /// `[[entity]]`
    pub entities: Vec<Entity>,
    /// `[[view]]`
    pub views: Vec<Entity>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server: Server::default(),
            database: Database::default(),
            log: Log::default(),
            auth: Auth::default(),
            roles: BTreeMap::new(),
            email: None,
            storage: None,
            rate_limit: RateLimit::default(),
            csrf: Csrf::default(),
            browser_backend: None,
            events: Events::default(),
            outbox: Outbox::default(),
            tenancy: Tenancy::default(),
            audit: Audit::default(),
            authorization_server: AuthorizationServer::default(),
            mcp: Mcp::default(),
            admin: Admin::default(),
            branding: Branding::default(),
            functions: Functions::default(),
            hooks: Vec::new(),
            jobs: Vec::new(),
            docs: cfg!(feature = "docs"),
            entities: Vec::new(),
            views: Vec::new(),
        }
    }
}

impl Config {
    /// The path that entity routes are mounted under: empty, or starting with a slash.
    pub fn api_prefix(&self) -> &str {
        match &self.server.api_prefix {
            Some(prefix) => prefix,
            None if self.browser_backend.is_some() => "/api",
            None => "",
        }
    }

    /// Everything that is served as records: the entities, the views, and the directory of accounts.
    pub fn declared(&self) -> Vec<Entity> {
        // The configuration's check reports a directory that cannot be declared.
        let directory = self.directory().ok().flatten();
        self.entities.iter().chain(&self.views).cloned().chain(directory).collect()
    }

    /// The directory of accounts as an entity. The error names its setting.
    pub(crate) fn directory(&self) -> Result<Option<Entity>, (&'static str, String)> {
        directory::declared(self)
    }

    /// The enabled plugins: the configured ones, or all.
    pub fn plugins(&self) -> &[Plugin] {
        self.auth.plugins.as_deref().unwrap_or(Plugin::ALL)
    }

    /// The public URL: `server.public_url`, or `http://` and the listening address.
    pub fn public_url(&self) -> Url {
        let listen = self.server.address();
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        let host = match listen.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let default = || format!("{scheme}://{}", SocketAddr::new(host, listen.port()));
        self.server.public_url.clone().unwrap_or_else(|| default().parse().expect("an address makes a URL"))
    }

    /// How long the server continues to answer after a stop is requested: `server.drain`, or 2 seconds, or none in dev
    /// mode.
    pub fn drain(&self) -> Duration {
        let default = if self.server.dev_mode { Duration::ZERO } else { Duration::from_secs(2) };
        self.server.drain.unwrap_or(default)
    }

    /// Every key of the configuration file, section by section, as the parser reads it.
    pub fn settings() -> Vec<Setting> {
        Section::describe(|section| drop(Self::read(section)))
    }

    fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let server = section.section("server", Server::read);
        let behind_proxies = !server.trusted_proxies.is_empty();
        Self {
            server,
            database: section.section("database", Database::read),
            log: section.section("log", Log::read),
            auth: section.section("auth", |s| Auth::read(s, behind_proxies)),
            roles: section.entries("roles", "The permissions of the role. `\"*\"`: all permissions."),
            email: section.optional_section("email", Email::read),
            storage: section.optional_section("storage", Storage::read).map(Box::new),
            rate_limit: section.section("rate_limit", RateLimit::read),
            csrf: section.section("csrf", Csrf::read),
            browser_backend: section.optional_section("browser_backend", BrowserBackend::read),
            events: section.section("events", Events::read),
            outbox: section.section("outbox", Outbox::read),
            tenancy: section.section("tenancy", Tenancy::read),
            audit: section.section("audit", Audit::read),
            authorization_server: section.section("authorization_server", AuthorizationServer::read),
            mcp: section.section("mcp", Mcp::read),
            admin: section.section("admin", Admin::read),
            branding: section.section("branding", Branding::read),
            functions: section.section("functions", Functions::read),
            hooks: section.sections("hook", Hook::read),
            jobs: section.sections("job", Job::read),
            docs: section.section("docs", |s| {
                s.value("enabled", default.docs, "Whether the page at [`/api/docs`](openapi.md#the-page) is enabled.")
            }),
            entities: section.sections("entity", entity::read),
            views: section.sections("view", view::read),
        }
    }
}
