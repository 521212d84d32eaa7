//! The data layer through its public interface, on every engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "all/backup.rs"]
mod backup;
#[path = "all/basics.rs"]
mod basics;
#[path = "all/closing.rs"]
mod closing;
#[path = "all/compiled.rs"]
mod compiled;
#[path = "all/counts.rs"]
mod counts;
#[path = "all/descriptors.rs"]
mod descriptors;
#[path = "all/encoding.rs"]
mod encoding;
#[path = "all/exports.rs"]
mod exports;
#[path = "all/files.rs"]
mod files;
#[path = "all/lanes.rs"]
mod lanes;
#[path = "all/legacy.rs"]
mod legacy;
#[path = "all/listen.rs"]
mod listen;
#[path = "all/migrations.rs"]
mod migrations;
#[path = "all/pooler.rs"]
mod pooler;
#[path = "all/promote.rs"]
mod promote;
#[path = "all/reads.rs"]
mod reads;
#[path = "all/tls.rs"]
mod tls;
#[path = "all/together.rs"]
mod together;
#[path = "all/transactions.rs"]
mod transactions;
#[path = "all/undone.rs"]
mod undone;
