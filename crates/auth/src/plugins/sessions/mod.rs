//! A user's own list of sessions, and the ending of them. Part of the core plugin.
//!
//! Only a session may look at sessions: a JWT or an API token gets 401, so that a leaked token can neither watch its
//! owner nor lock them out. `http.rs` is the wire, `flow.rs` the rules; the rows are the session store's.

mod flow;
mod http;
pub(crate) mod section;

pub(crate) use flow::Flow;
pub(super) use http::routes;
