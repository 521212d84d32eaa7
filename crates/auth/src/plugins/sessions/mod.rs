//! Lists and ends a user's own sessions. Part of the core plugin.
//!
//! These routes need a session: a JWT or an API token gets 401, so that a leaked token can neither observe its owner
//! nor sign them out. `http.rs` has the routes, `flow.rs` the rules; the session store has the rows.

mod flow;
mod http;
pub(crate) mod section;

pub(crate) use flow::Flow;
pub(super) use http::routes;
