//! An account's own list of known devices, and the forgetting of them. Part of the core plugin.
//!
//! Only a session may look at devices. What a known device is, and how a browser becomes one, is told at `devices/mod.rs`.
//! Without a database there are none, and the list is empty.

mod flow;
mod http;
pub(crate) mod section;

pub(crate) use flow::Flow;
pub(super) use http::routes;
