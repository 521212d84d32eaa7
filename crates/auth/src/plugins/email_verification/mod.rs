//! Email verification: proof that an account's mailbox is its owner's.
//!
//! `http.rs` accepts `send-verification` from a session, and `flow.rs` mails a link that is bound to the account and
//! its current address. Mail scanners open links before people do. Therefore a GET verifies only for a browser with a
//! session of that account; anybody else gets a page (`page.rs`) whose form posts the token. `mailbox.rs` of this crate
//! decides what the proof does to the account. A used link can be opened again until it expires, if the account still
//! has the address.

mod flow;
mod http;
mod page;
mod section;

use std::sync::Arc;
use std::time::Duration;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};
use crate::single_use::Purpose;
use crate::single_use::links::Links;

use flow::Flow;
use section::AddressSection;

/// The email-verification plugin.
#[derive(Debug)]
pub struct EmailVerificationPlugin {
    ttl: Duration,
}

impl EmailVerificationPlugin {
    /// A plugin whose links work for 24 hours.
    pub fn new() -> Self {
        Self { ttl: Duration::from_hours(24) }
    }

    /// How long a link works.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl }
    }
}

impl Default for EmailVerificationPlugin {
    fn default() -> Self {
        Self::new()
    }
}

impl Plugin for EmailVerificationPlugin {
    fn name(&self) -> &'static str {
        "email_verification"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        if foundation.users.email_verifier.is_none() {
            return Err(AuthInitError::MissingCapability {
                plugin: "email_verification",
                store: "user",
                capability: "an email verifier",
                remedy: "without it a proof could not be recorded",
            });
        }
        if foundation.users.password_setter.is_none() {
            return Err(AuthInitError::MissingCapability {
                plugin: "email_verification",
                store: "user",
                capability: "a password setter",
                remedy: "the first proof of a mailbox drops an earlier password",
            });
        }
        let path = format!("{}/verify-email", foundation.config.base_path);
        let links = Links::new(foundation, Purpose::EmailVerification, &path, self.ttl)?;
        let links = Arc::new(links);
        let section = AddressSection::new(&foundation.config.base_path);
        let prepared = Prepared::new().verification(links.clone()).account_section(move |_| Arc::new(section));
        Ok(prepared.routes(|core| http::routes(Arc::new(Flow { core: core.clone(), links }))))
    }
}
