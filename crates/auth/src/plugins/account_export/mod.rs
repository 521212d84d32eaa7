//! Everything that the service keeps of an account, as JSON for its owner.
//!
//! `http.rs` takes the wish from a session with a fresh proof (`fresh.rs` of this crate), `flow.rs` collects what there is
//! of the account, and `writer.rs` sends it in pieces: the memory that an export takes does not grow with what it holds.
//!
//! An account has one export at a time on a server, and few accounts and few of one client address have one. What is hidden of records stays hidden, and
//! no secret is told.

mod flow;
mod http;
mod section;
mod writer;

use std::sync::Arc;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};

pub(crate) use flow::{ExportError, Flow, Running, moment};
pub(crate) use http::answer;
use section::ExportSection;

/// The plugin by which owners get a copy of what the service keeps of them.
#[derive(Debug, Default)]
pub struct AccountExportPlugin;

impl Plugin for AccountExportPlugin {
    fn name(&self) -> &'static str {
        "account_export"
    }

    fn prepare(self: Box<Self>, _: &Foundation) -> Result<Prepared, AuthInitError> {
        let running = Running::default();
        let of_section = running.clone();
        Ok(Prepared::new()
            .account_section(|core| Arc::new(ExportSection::new(Arc::new(Flow::new(core.clone(), of_section)))))
            .routes(|core| http::routes(Arc::new(Flow::new(core.clone(), running)))))
    }
}
