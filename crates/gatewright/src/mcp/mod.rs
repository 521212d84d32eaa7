//! `POST /mcp`: the entities as tools, by the Model Context Protocol over streamable HTTP.
//!
//! A request's way: authentication has named the caller, as on every route. [`http`] lets nobody past who is refused as
//! a whole ([`guard`]: another site's page, a rebound host; a session that owes its second factor; a delegated grant), and
//! hands the message to the protocol's own SDK. [`server`] then answers `tools/list` with the tools that this caller may
//! call ([`catalogue`]), and `tools/call` by turning arguments into what the operation reads ([`arguments`]) and calling
//! it: the one that answers REST, with its access rules, its parser and its errors.
//!
//! There are no protocol sessions. Each message is served by itself, as whoever its own request's credentials say: nothing
//! that one caller began can be carried on by another.

mod arguments;
mod catalogue;
mod guard;
mod http;
mod missing_scope;
mod server;

pub(crate) use http::{PATH, routes};
