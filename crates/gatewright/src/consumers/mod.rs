//! `/consumers/{name}/…`: the outbox's events for programs that pull them.
//!
//! `access` decides who may pull, `http` parses requests and builds answers; the rest is
//! [`Pulls`](gatewright_events::outbox::Pulls).

mod access;
mod http;

use gatewright_events::outbox::PullConsumer;
pub(crate) use http::routes;

/// The resource of the scope and the permission that a consumer's callers need; the verb is its name.
pub(crate) const RESOURCE: &str = "consumers";

/// Why a consumer that pulls cannot have this name, if it cannot.
pub(crate) fn refuse_name(name: &str) -> Option<&'static str> {
    if matches!(name, "read" | "write") {
        return Some("is a verb of every entity's scopes: `*:read` would open this consumer; take another name");
    }
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let fits = PullConsumer::new(name, "event").is_ok() && name.bytes().all(word);
    (!fits).then_some("must be 1 to 100 of a-z, 0-9, `_` and `-`: it is part of a path and of a scope")
}
