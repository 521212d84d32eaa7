//! The core plugin: registration, sign-in by password, sign-out, and who am I.
//!
//! The journey of a sign-in: `http.rs` takes JSON or a form, with the cross-site guard and the per-address limiter in
//! front; `flow.rs` asks the per-account limiter, looks the user up, has the hashing pool compare the password, and
//! takes the proven user to the mint (`session/mint.rs`); `http.rs` turns what comes back into JSON or a redirect, with
//! the cookie.
//!
//! The lists of one's own sessions (`plugins/sessions`) and known devices (`plugins/devices`) come with it.
//!
//! It has no tables of its own: users and sessions are what every plugin builds on.

mod change;
mod flow;
mod http;
mod registration;
mod screen;
mod section;

use std::sync::Arc;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::devices::section::DevicesSection;
use crate::plugins::sessions::section::SessionsSection;
use crate::plugins::{Plugin, Prepared, devices, sessions};

pub(crate) use change::{ChangeError, ChangePassword};
use flow::Flow;
use section::PasswordSection;

/// The core plugin. Register it first.
#[derive(Debug, Clone, Copy, Default)]
pub struct PasswordPlugin;

impl Plugin for PasswordPlugin {
    fn name(&self) -> &'static str {
        "core"
    }

    fn prepare(self: Box<Self>, _: &Foundation) -> Result<Prepared, AuthInitError> {
        let prepared = Prepared::new()
            .routes(|core| {
                let own = http::routes(Arc::new(Flow::new(core.clone())));
                own.merge(sessions::routes(core.clone())).merge(devices::routes(core.clone()))
            })
            .screens(|core| screen::routes(core.clone()))
            .account_section(|core| Arc::new(PasswordSection::new(Arc::new(ChangePassword::new(core.clone())))))
            .account_section(|core| Arc::new(SessionsSection::new(Arc::new(sessions::Flow { core: core.clone() }))))
            .account_section(|core| Arc::new(DevicesSection::new(Arc::new(devices::Flow::new(core.clone())))));
        Ok(prepared)
    }
}
