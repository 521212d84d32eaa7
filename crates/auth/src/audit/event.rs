use std::net::IpAddr;

use gatewright_base::UserId;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::AuditKind;

/// A security event, for the audit log.
///
/// `meta` contains details: an address, a reason, the first characters of a token. It cannot contain a credential,
/// because [`Secret`](gatewright_base::Secret) cannot be converted to JSON, and no other type holds one.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// The kind of the event.
    pub kind: AuditKind,
    /// The account, if it is known.
    pub user_id: Option<UserId>,
    /// The client address, if it is known.
    pub remote: Option<IpAddr>,
    /// The record or other object of the event, as `resource/id`. The log can be searched by it.
    pub subject: Option<String>,
    /// Details, an object.
    pub meta: Map<String, Value>,
    /// When.
    pub at: Timestamp,
}

impl AuditEvent {
    /// An event of `kind` at `at`, without details.
    pub fn new(kind: AuditKind, at: Timestamp) -> Self {
        Self { kind, user_id: None, remote: None, subject: None, meta: Map::new(), at }
    }

    /// Sets the account.
    pub fn user(mut self, id: &UserId) -> Self {
        self.user_id = Some(id.clone());
        self
    }

    /// Sets the client address.
    pub fn remote(mut self, address: Option<IpAddr>) -> Self {
        self.remote = address;
        self
    }

    /// Sets the subject, as `resource/id`.
    pub fn about(mut self, subject: Option<String>) -> Self {
        self.subject = subject.map(storable);
        self
    }

    /// Adds a detail.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::String(text) => Value::String(storable(text)),
            value => value,
        };
        self.meta.insert(name.to_owned(), value);
        self
    }
}

/// A text that every database stores: Postgres refuses NUL, and a caller must not avoid an entry by sending one.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
