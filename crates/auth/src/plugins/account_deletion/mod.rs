//! Deletion of accounts by their owners.
//!
//! `http.rs` accepts the request from a session with a fresh proof (`fresh.rs` of this crate). `removal` of this crate
//! does the rest, also for operators.

mod flow;
mod http;
mod section;

use std::sync::Arc;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};

pub(crate) use flow::{DeleteError, Flow};
use section::DeletionSection;

/// The plugin by which owners delete their accounts.
#[derive(Debug, Default)]
pub struct AccountDeletionPlugin;

impl Plugin for AccountDeletionPlugin {
    fn name(&self) -> &'static str {
        "account_deletion"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        if foundation.users.deleter.is_none() {
            return Err(AuthInitError::MissingCapability {
                plugin: "account_deletion",
                store: "user",
                capability: "a user deleter",
                remedy: "without it no account could be deleted",
            });
        }
        Ok(Prepared::new()
            .account_section(|core| Arc::new(DeletionSection::new(Arc::new(Flow::new(core.clone())))))
            .routes(|core| http::routes(Arc::new(Flow::new(core.clone())))))
    }
}
