//! The audit log: sign-ins, failed attempts, and changes of credentials.
//!
//! Flows pass an [`AuditEvent`] with an [`AuditKind`] to [`Audit`], which passes it to the [`AuditSink`]: the table
//! `audit_log` ([`SqlAuditSink`]), a program's own, or none. Auditing must never break the audited operation, so a sink
//! that fails only adds a line to the log.

mod event;
mod kind;
mod log;
mod repetition;
mod sink;
mod sql;

pub use event::AuditEvent;
pub use kind::AuditKind;
pub use log::{AuditLog, AuditQuery, AuditRecord};
pub use sink::{Audit, AuditAt, AuditPage, AuditSink};
pub(crate) use sql::MIGRATIONS;
pub use sql::SqlAuditSink;
