//! The audit log: sign-ins, failed attempts, and changes of credentials.
//!
//! Flows pass an [`AuditEvent`] with an [`AuditKind`] to [`Audit`], which passes it to the [`AuditSink`]: the table
//! `audit_log` ([`SqlAuditSink`]), a program's own, or none. Acts whose events [must be stored](AuditKind::must_be_stored) are
//! refused by a sink that fails. For all others it only adds a line to the log.

mod event;
mod kind;
mod log;
mod repetition;
mod sink;
mod sql;

pub use event::AuditEvent;
pub use kind::AuditKind;
pub use log::{AuditLog, AuditQuery, AuditRecord};
pub(crate) use sink::Unstored;
pub use sink::{Audit, AuditAt, AuditPage, AuditSink, PendingEvent};
pub(crate) use sql::MIGRATIONS;
pub use sql::SqlAuditSink;
