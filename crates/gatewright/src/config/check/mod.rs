//! The checks of a configuration. They use typed values, so the same rules apply to a file and to a program that fills
//! a [`Config`] in Rust. A fault names its setting by path, and the loader finds the line.

mod admin;
mod auth;
mod authorization_server;
mod branding;
mod browser;
#[cfg(feature = "mail")]
mod email;
mod entities;
mod hooks;
mod jobs;
mod names;
mod network;
#[cfg(feature = "oauth")]
mod oauth;
mod operations;
mod posture;
mod storage;

pub(super) use names::names_of;
pub(crate) use network::is_loopback;

use std::fmt;

use gatewright_base::Secret;
use gatewright_entities::TextPlace;

use super::Config;

/// One value that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The setting's path, such as `auth.limits.login.max_attempts` or `entity[0].field[2].max`.
    pub key: String,
    /// The error and a correct value. It does not contain the value if that may be a secret.
    pub message: String,
    /// The place in the setting's text, if the error is in one word of a rule.
    pub at: Option<TextPlace>,
}

/// All refused values of a configuration; displayed as one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

impl Config {
    /// Checks every value. A program need not call it, because the start checks again.
    pub fn check(&self) -> Result<(), Faults> {
        let mut faults = Faults::default();
        network::check(self, &mut faults);
        posture::check(self, &mut faults);
        auth::check(self, &mut faults);
        authorization_server::check(self, &mut faults);
        admin::check(self, &mut faults);
        #[cfg(feature = "oauth")]
        oauth::check(self, &mut faults);
        #[cfg(not(feature = "oauth"))]
        faults.require(!self.auth.oauth.has_providers(), "auth.oauth", crate::carriers::without("oauth"));
        branding::check(self, &mut faults);
        browser::check(self, &mut faults);
        #[cfg(feature = "mail")]
        email::check(self, &mut faults);
        #[cfg(not(feature = "mail"))]
        faults.require(self.email.is_none(), "email", crate::carriers::without("mail"));
        storage::check(self, &mut faults);
        #[cfg(not(feature = "files"))]
        faults.require(!self.has_files(), "storage", crate::carriers::without("files"));
        operations::check(self, &mut faults);
        jobs::check(self, &mut faults);
        hooks::check(self, &mut faults);
        entities::check(self, &mut faults);
        names::add(self, &mut faults);
        if faults.0.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Checks every value except those that only serving needs. Dev mode does not need them either.
    pub(super) fn check_for_management(&self) -> Result<(), Faults> {
        let mut relaxed = self.clone();
        relaxed.server.dev_mode = true;
        relaxed.server.allow_public_dev_mode = true;
        relaxed.check()
    }

    /// Probable mistakes that are allowed, one sentence each.
    pub fn warnings(&self) -> Vec<Fault> {
        let mut warnings = Faults::default();
        auth::warn(self, &mut warnings);
        network::warn(self, &mut warnings);
        posture::warn(self, &mut warnings);
        operations::warn(self, &mut warnings);
        jobs::warn(self, &mut warnings);
        hooks::warn(self, &mut warnings);
        entities::warn(self, &mut warnings);
        names::add(self, &mut warnings);
        warnings.0
    }
}

impl Config {
    /// [`Config::warnings`], and warnings about missing sections that a program would replace.
    pub(super) fn warnings_of_file(&self) -> Vec<Fault> {
        let mut warnings = Faults(self.warnings());
        auth::warn_of_mail(self, &mut warnings);
        warnings.0
    }
}

impl Faults {
    pub(super) fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault { key: key.into(), message: message.into(), at: None });
    }

    /// Adds a fault with the place of the mistake in the setting's text.
    fn add_at(&mut self, key: impl Into<String>, message: impl Into<String>, at: Option<TextPlace>) {
        self.0.push(Fault { key: key.into(), message: message.into(), at });
    }

    fn require(&mut self, holds: bool, key: impl Into<String>, message: impl Into<String>) {
        if !holds {
            self.add(key, message);
        }
    }

    /// Requires a minimum length, except in dev mode. Any text of that length is valid: keys are derived from it.
    fn require_length(&mut self, config: &Config, key: &str, secret: &Secret) {
        if !config.server.dev_mode && !secret.is_empty() && secret.len() < Secret::MIN_BYTES {
            let message = format!(
                "must be at least {} bytes outside dev mode, has {}; `gatewright secret` prints a new one",
                Secret::MIN_BYTES,
                secret.len()
            );
            self.add(key, message);
        }
    }
}
