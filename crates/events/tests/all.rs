//! The bus and its streams, through their public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "all/backends.rs"]
mod backends;
#[path = "all/bus.rs"]
mod bus;
#[path = "all/fan_out.rs"]
mod fan_out;
#[path = "all/http.rs"]
mod http;
#[path = "all/log.rs"]
mod log;
#[path = "all/log_changes.rs"]
mod log_changes;
#[path = "all/log_lost.rs"]
mod log_lost;
#[path = "all/memory.rs"]
mod memory;
#[path = "all/ordered.rs"]
mod ordered;
#[path = "all/outbox.rs"]
mod outbox;
#[path = "all/pulls.rs"]
mod pulls;
#[path = "all/rechecks.rs"]
mod rechecks;
#[path = "all/room.rs"]
mod room;
#[path = "all/seats.rs"]
mod seats;
#[path = "all/several.rs"]
mod several;
#[path = "all/slow.rs"]
mod slow;
#[path = "all/stopping.rs"]
mod stopping;
#[path = "all/streams.rs"]
mod streams;
#[path = "all/support.rs"]
mod support;
#[path = "all/takeovers.rs"]
mod takeovers;
#[path = "all/turns.rs"]
mod turns;
#[path = "all/webhooks.rs"]
mod webhooks;
