use std::net::IpAddr;

use gatewright_base::UserId;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::AuditKind;

/// Something that happened around sign-in, for those who keep watch.
///
/// `meta` holds what helps to understand it: an address, a reason, a token's first characters. A credential has no way
/// in: [`Secret`](gatewright_base::Secret) cannot become JSON, and nothing else carries one.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// What happened.
    pub kind: AuditKind,
    /// To whose account, if it is known.
    pub user_id: Option<UserId>,
    /// Caused from where, if it is known.
    pub remote: Option<IpAddr>,
    /// The record or other thing that it is about, written `resource/id`: what a log is searched by.
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

    /// Names the account.
    pub fn user(mut self, id: &UserId) -> Self {
        self.user_id = Some(id.clone());
        self
    }

    /// Names the address that caused it.
    pub fn remote(mut self, address: Option<IpAddr>) -> Self {
        self.remote = address;
        self
    }

    /// Names what it is about, as `resource/id`.
    pub fn about(mut self, subject: Option<String>) -> Self {
        self.subject = subject;
        self
    }

    /// Adds a detail.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(name.to_owned(), value.into());
        self
    }
}
