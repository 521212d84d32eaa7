//! Guests: accounts without an address, for people who have not registered yet.
//!
//! `POST /anonymous` creates one and signs it in. Registering, a magic link, a code by mail or a provider turns it into a full
//! account with the same id (module `guests::upgrade`), if the address has no account. Otherwise that account is
//! signed in, the guest stays as it is, and the audit event of the sign-in names it.
//!
//! Anybody can create guests, so a limit counts them by network, and those that are idle are deleted with their records.

mod flow;
mod http;

use std::sync::Arc;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};

use flow::Flow;

/// The plugin of guests. [`AuthConfig::guests`](crate::AuthConfig::guests) enables it.
#[derive(Debug, Clone, Copy, Default)]
pub struct GuestsPlugin;

impl Plugin for GuestsPlugin {
    fn name(&self) -> &'static str {
        "guests"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        if foundation.config.guests.is_none() {
            return Ok(Prepared::new());
        }
        if foundation.users.guests.is_none() {
            return Err(AuthInitError::MissingCapability {
                plugin: "guests",
                store: "user",
                capability: "guests",
                remedy: "use the built-in store, or implement `UserStore::guest_users`",
            });
        }
        Ok(Prepared::new().routes(|core| http::routes(Arc::new(Flow { core: core.clone() }))))
    }
}
