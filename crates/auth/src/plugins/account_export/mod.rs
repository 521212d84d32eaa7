//! The export of an account: everything that the service stores about it, as JSON for its owner.
//!
//! `http.rs` accepts the request from a session with a fresh proof (`fresh.rs` of this crate), `flow.rs` collects the
//! data, and `writer.rs` sends it in chunks, so that memory does not grow with the size of the export.
//!
//! An account has one export at a time on a server, a client address four, and a server 32. An export contains no
//! hidden fields of records and no secrets.

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

/// The plugin with which owners export their account.
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
