//! Password reset by a mailed link.
//!
//! `forgot-password` in `http.rs` takes an address and answers at once, the same for every address; the lookup, the
//! token and the mail are background work. The link opens a screen (`/reset-password`, or a host's own), whose form
//! posts the token and the new password. `flow.rs` checks the password before it spends the token, and ends sessions,
//! JWTs and other reset tokens. Everything else that has access to the account ends too, unless the caller keeps it.
//!
//! A reset proves the mailbox. If nobody had proven it before, the reset claims the account: `mailbox.rs` of this
//! crate. A user store without an email verifier cannot record the proof, so every reset claims the account.

mod flow;
mod http;

use std::sync::Arc;
use std::time::Duration;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};
use crate::screens::mailed;
use crate::single_use::Purpose;
use crate::single_use::links::Links;

use flow::Flow;

/// The password-reset plugin.
#[derive(Debug)]
pub struct PasswordResetPlugin {
    ttl: Duration,
    screen: String,
}

impl PasswordResetPlugin {
    /// A plugin whose links open the built-in screen and work for an hour.
    pub fn new() -> Self {
        Self { ttl: Duration::from_hours(1), screen: mailed::RESET_PATH.to_owned() }
    }

    /// How long a link works.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// The path of the host's own screen, which the link opens with `?token=…`: a form that posts `token` and
    /// `password` to `reset-password` under the base path.
    pub fn screen(self, path: impl Into<String>) -> Self {
        Self { screen: path.into(), ..self }
    }
}

impl Default for PasswordResetPlugin {
    fn default() -> Self {
        Self::new()
    }
}

impl Plugin for PasswordResetPlugin {
    fn name(&self) -> &'static str {
        "password_reset"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        if foundation.users.password_setter.is_none() {
            return Err(AuthInitError::MissingCapability {
                plugin: "password_reset",
                store: "user",
                capability: "a password setter",
                remedy: "without it a new password could not be kept",
            });
        }
        let links = Links::new(foundation, Purpose::PasswordReset, &self.screen, self.ttl)?;
        let links = Arc::new(links);
        let for_screens = links.clone();
        let prepared = if links.can_be_sent() {
            Prepared::new().sign_in_link("sign_in.forgot", mailed::FORGOT_PATH)
        } else {
            tracing::warn!("no mailer configured; a forgotten password cannot be reset by mail; set [email]");
            Prepared::new()
        };
        Ok(prepared
            .routes(|core| http::routes(Arc::new(Flow::new(core.clone(), links))))
            .screens(|core| mailed::routes(core.clone(), for_screens)))
    }
}
