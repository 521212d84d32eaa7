//! The write-event bus and its streams.
//!
//! Every committed write to an entity is an [`EntityEvent`]. The operation that made it publishes it on the [`Bus`]
//! right after the commit, and three kinds of subscriber get it. None of them can delay the write or each other:
//!
//! - handlers in this process ([`Bus::on`]),
//! - clients, over server-sent events ([`sse`]),
//! - other replicas, through a fan-out backend ([`fanout`]).
//!
//! This lane is the live one: fast, in order, and lossy. Events that must not be lost are staged in the outbox, in the
//! write's own transaction, and do not use the bus.
//!
//! The path of a write to a browser, file by file: [`event`](EntityEvent) (the data), `bus` (the subscribers),
//! `sse/dispatch` (the streams), `sse/frame` (the bytes), `sse/ring` (the buffer, and what a slow client loses),
//! `sse/body` (the connection).
//!
//! # Features
//!
//! All are on by default.
//!
//! - `sqlite`, `postgres`: databases for the log and the outbox; `postgres` is a fan-out too.
//! - `redis`, `nats`: fan-out over them.
//! - `webhook`: webhooks as consumers of the outbox.

pub mod bus;
mod envelope;
mod event;
pub mod fanout;
mod forgotten;
pub mod log;
pub mod outbox;
mod problem;
pub mod sse;

pub use bus::{Bus, Receipt, Receipts};
pub use envelope::Malformed;
pub use event::{EntityEvent, EventKind};
pub use forgotten::Forget;
/// Identity, time and randomness.
pub use gatewright_base as base;
/// The database.
pub use gatewright_db as db;
/// Problems, extractors and layers.
pub use gatewright_http as http;
pub use log::{Cursor, EventLog, LogOptions, LoggedInsert, logged_insert, numbered_insert};
pub use sse::{StreamOptions, Streams};
