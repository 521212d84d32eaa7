//! Lists and forgets an account's own known devices. Part of the core plugin.
//!
//! These routes need a session. `devices/mod.rs` describes known devices. Without a database there are none, and the
//! list is empty.

mod flow;
mod http;
pub(crate) mod section;

pub(crate) use flow::Flow;
pub(super) use http::routes;
