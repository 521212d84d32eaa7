//! The core plugin: registration, sign-in by password, sign-out, and the current user.
//!
//! A sign-in: `http.rs` accepts JSON or a form, behind the cross-site guard and the per-address limiter; `flow.rs`
//! looks the user up, calls the per-account limiter, compares the password in the hashing pool, and passes the proven
//! user to the mint (`session/mint.rs`); `http.rs` converts the result into JSON or a redirect, with the cookie.
//!
//! It includes the lists of the user's own sessions (`plugins/sessions`) and known devices (`plugins/devices`).
//!
//! It has no tables of its own: the tables of users and sessions belong to the foundation.

mod change;
mod flow;
mod http;
mod registration;
pub(crate) mod screen;
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
