//! `POST /mcp`: the entities as tools, by the Model Context Protocol over streamable HTTP.
//!
//! Authentication has identified the caller, as on every route. [`http`] refuses pages of other sites and rebound hosts
//! ([`guard`]), sessions whose second factor is pending, and delegated grants, and passes the message to the protocol's
//! SDK. [`server`] answers `tools/list` with the tools that this caller may call ([`catalogue`]). For `tools/call` it
//! converts the arguments into the operation's input ([`arguments`]) and calls it: the same operation that answers
//! REST, with its access rules, parser and errors.
//!
//! There are no protocol sessions. Each message is served separately, with its own request's credentials, so that no
//! caller can continue what another began.

mod arguments;
mod batch;
mod catalogue;
mod guard;
mod http;
mod missing_scope;
mod sent;
mod server;

pub(crate) use http::{PATH, routes};
