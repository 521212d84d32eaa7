//! Changes of the configuration while the server runs.

use gatewright_auth::Auth;
use gatewright_base::RolePermissions;
use gatewright_http::AllowedOrigins;

use super::limits::LiveRate;
use super::mail::MailService;
use crate::Config;
use crate::serve::{Listeners, LiveTls, load_tls};

/// What can be changed while an [`App`](super::App) runs: the limits of `[auth.limits]` and `[rate_limit.api]`, `[roles]`,
/// `[tenancy.roles]`, the templates of mails, `browser_backend.allowed_origins`, and certificates. Cheap to clone.
#[derive(Clone)]
pub struct Reloader {
    pub(super) roles: RolePermissions,
    pub(super) tenant_roles: RolePermissions,
    /// The roles within tenants that the members' routes know.
    pub(super) known_tenant_roles: Vec<String>,
    pub(super) auth: Option<Auth>,
    pub(super) mail: MailService,
    pub(super) origins: Option<AllowedOrigins>,
    pub(super) rate: Option<LiveRate>,
    pub(super) tls: Option<LiveTls>,
}

/// The outcome of a [`Reloader::reload`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// The settings that changed and have an effect from now on.
    pub applied: Vec<String>,
    /// The settings that changed and need a restart.
    pub needs_restart: Vec<String>,
}

/// Why a configuration was not taken over. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReloadError(String);

/// Settings that change while the server runs, and those below them.
const LIVE: [&str; 9] = [
    "auth.limits",
    "browser_backend.allowed_origins",
    "email.templates",
    "rate_limit.api.burst",
    "rate_limit.api.per_second",
    "roles",
    "server.tls.certificate",
    "server.tls.key",
    "tenancy.roles",
];

impl Reloader {
    /// Also changes the certificate of these sockets.
    pub fn listening(self, listeners: &Listeners) -> Self {
        Self { tls: listeners.tls().cloned(), ..self }
    }

    /// Takes over what can change while the server runs. `changed` are the settings whose values differ from those at the
    /// start, and `own` those of them that the caller changes itself. The files of templates and
    /// certificates are read again in any case. Either
    /// everything is taken over, or nothing.
    pub fn reload(&self, config: &Config, changed: Vec<String>, own: &[&str]) -> Result<Reloaded, ReloadError> {
        config.check().map_err(|faults| ReloadError(faults.to_string()))?;
        // What can fail comes first.
        let templates = self.mail.prepared(config).map_err(|error| ReloadError(format!("email.templates: {error}")))?;
        let origins = config.browser_backend.as_ref().map(|backend| AllowedOrigins::parse(&backend.allowed_origins));
        let origins = origins.transpose().map_err(|error| ReloadError(error.to_string()))?;
        let rate = config.rate_limit.api.as_ref().map(LiveRate::parse).transpose().map_err(ReloadError)?;
        let tls = config.server.tls.as_ref().filter(|_| self.tls.is_some()).map(load_tls).transpose();
        let tls = tls.map_err(|error| ReloadError(error.to_string()))?;
        let has_roles = config.tenancy.roles.keys().eq(&self.known_tenant_roles);

        self.roles.replace(config.roles.clone());
        if has_roles {
            self.tenant_roles.replace(config.tenancy.roles.clone());
        }
        if let Some(auth) = &self.auth {
            auth.set_limits(&config.auth.limits);
        }
        if let Some(templates) = templates {
            self.mail.replace(&templates);
        }
        if let (Some(live), Some(origins)) = (&self.origins, &origins) {
            live.replace(origins);
        }
        if let (Some(live), Some(rate)) = (&self.rate, rate) {
            live.set(rate);
        }
        let has_tls = self.tls.is_some() && tls.is_some();
        if let (Some(live), Some(tls)) = (&self.tls, tls) {
            live.replace(tls);
        }
        let is_taken_over = |path: &String| {
            let is_within =
                |of: &&str| path.strip_prefix(*of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            match LIVE.iter().find(|live| is_within(live)) {
                Some(&"auth.limits") => !path.ends_with(".trust_forwarded_for"),
                Some(&"browser_backend.allowed_origins") => self.origins.is_some() && origins.is_some(),
                Some(&("rate_limit.api.burst" | "rate_limit.api.per_second")) => self.rate.is_some() && rate.is_some(),
                Some(&"email.templates") => self.mail.has_templates() && config.email.is_some(),
                Some(&"tenancy.roles") => has_roles,
                Some(&("server.tls.certificate" | "server.tls.key")) => has_tls,
                Some(_) => true,
                None => own.iter().any(is_within),
            }
        };
        let (applied, needs_restart) = changed.into_iter().partition(is_taken_over);
        Ok(Reloaded { applied, needs_restart })
    }
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader").field("origins", &self.origins).finish_non_exhaustive()
    }
}
