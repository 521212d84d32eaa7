//! Linked accounts: lists and unlinks the providers with which a user can sign in.
//!
//! These routes need a session: a JWT or an API token gets 401. `http.rs` has the routes, `flow.rs` the rules; the user
//! store has the rows. The last way to sign in cannot be removed, also with two concurrent requests. If the store
//! reports that the account has a password, the last link may be removed. Otherwise a link to another provider that is
//! still configured must remain.

mod credentials;
mod flow;
mod http;
mod section;

use std::sync::Arc;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};

pub(crate) use credentials::ProviderLinks;
pub(crate) use flow::Flow;
pub(crate) use http::was_last;
use section::ProvidersSection;

/// The accounts plugin.
#[derive(Debug, Default)]
pub struct AccountsPlugin;

impl Plugin for AccountsPlugin {
    fn name(&self) -> &'static str {
        "accounts"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let lacks = |capability, remedy| AuthInitError::MissingCapability {
            plugin: "accounts",
            store: "user",
            capability,
            remedy,
        };
        let users = &foundation.users;
        let Some(lister) = users.account_lister.clone() else {
            return Err(lacks("an account lister", "without it there is nothing to list"));
        };
        let Some(unlinker) = users.account_unlinker.clone() else {
            return Err(lacks("an account unlinker", "without it no link could be removed"));
        };
        let of_section = (lister.clone(), unlinker.clone());
        Ok(Prepared::new()
            .account_section(move |core| {
                let (lister, unlinker) = of_section;
                Arc::new(ProvidersSection::new(core.clone(), Arc::new(Flow::new(core.clone(), lister, unlinker))))
            })
            .routes(move |core| http::routes(Arc::new(Flow::new(core.clone(), lister, unlinker)))))
    }
}
