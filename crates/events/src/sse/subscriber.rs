use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use gatewright_base::Identity;
use parking_lot::Mutex;

use super::heartbeat::{CONFIRMED_FOR, RECHECK_EVERY, TICKS};
use super::registry::Name;
use super::ring::{End, Ring};
use super::subscribe::{Filter, Recheck};
use crate::EntityEvent;
use crate::bus::receipt::{BlockingSeat, Hold};

/// One open stream.
pub(super) struct Subscriber {
    pub(super) id: u64,
    pub(super) table: Arc<str>,
    pub(super) caller: Identity,
    pub(super) name: Option<Name>,
    pub(super) ring: Ring,
    pub(super) filter: Mutex<Filter>,
    pub(super) recheck: Option<Recheck>,
    /// While it lives, writers to the table wait for this stream. Dropped when the stream ends.
    pub(super) blocking: Mutex<Option<BlockingSeat>>,
    /// Another stream has taken this one's seat. Written and read under the registry's lock.
    pub(super) seatless: AtomicBool,
    pub(super) due: Due,
}

/// When a stream's next heartbeat and re-check are, in ticks of the broker's clock.
#[derive(Default)]
pub(super) struct Due {
    pub(super) beat: AtomicU64,
    pub(super) recheck: AtomicU64,
    /// When the caller's right was last confirmed.
    pub(super) confirmed: AtomicU64,
    /// For when it lies in the wheel. Written and read under the registry's lock.
    pub(super) bucket: AtomicU64,
    pub(super) checking: AtomicBool,
}

/// One event of a batch, encoded.
pub(super) struct Outgoing {
    pub(super) event: Arc<EntityEvent>,
    pub(super) frame: Bytes,
    pub(super) hold: Option<Hold>,
}

/// A filter panicked.
pub(super) struct BadFilter;

impl Subscriber {
    /// Queues the events that the filter lets through, in one go, and returns how many were dropped for them.
    /// `matching` is scratch space.
    pub(super) fn offer(
        &self,
        events: &[Outgoing],
        matching: &mut Vec<(Bytes, Option<Hold>)>,
    ) -> Result<u64, BadFilter> {
        let filter = self.filter.lock().clone();
        matching.clear();
        let filtered = std::panic::catch_unwind(AssertUnwindSafe(|| {
            for outgoing in events {
                if filter(&outgoing.event) {
                    matching.push((outgoing.frame.clone(), outgoing.hold.clone()));
                }
            }
        }));
        if filtered.is_err() {
            matching.clear();
            return Err(BadFilter);
        }
        if matching.is_empty() {
            return Ok(0);
        }
        Ok(self.ring.push(matching.drain(..)))
    }

    /// Ends the stream; its seat is released when its connection lets go of the body.
    pub(super) fn end(&self, end: End) {
        self.ring.end(end);
        self.blocking.lock().take();
    }

    /// When somebody is to look after it next.
    pub(super) fn next_due(&self) -> u64 {
        let beat = self.due.beat.load(Ordering::Relaxed);
        if self.recheck.is_none() {
            return beat;
        }
        let doubtful = self.due.confirmed.load(Ordering::Acquire) + CONFIRMED_FOR;
        beat.min(self.due.recheck.load(Ordering::Relaxed)).min(doubtful)
    }
}

impl Due {
    /// Of the stream with this id, opened now: the first heartbeat and re-check at ticks of its own, so that streams which
    /// were opened together (after a restart, say) do not ask together.
    pub(super) fn first(now: u64, id: u64) -> Self {
        Self {
            beat: (now + TICKS - id % TICKS).into(),
            recheck: (now + RECHECK_EVERY - id % RECHECK_EVERY).into(),
            confirmed: now.into(),
            ..Self::default()
        }
    }
}
