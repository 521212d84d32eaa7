//! The bus publishes committed writes to all subscribers in this process.
//!
//! [`Bus::publish`] is called right after a commit, on the thread that committed: for SQLite the one writer thread that
//! every other write waits for. So publishing only appends to a queue per subscriber, under one lock. The lock also
//! determines the order: all subscribers see all events in the order of the commits.
//!
//! A subscriber drains a queue: a handler's task ([`Bus::on`]), the broker of the event streams ([`crate::sse`]) or the
//! mirror to other replicas ([`Bus::egress`]). None of them can delay another. A publisher can only wait for a
//! [`Receipt`], and not on the writer thread.

mod handler;
mod mirror;
mod origins;
pub(crate) mod queue;
pub(crate) mod receipt;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use gatewright_base::Ambient;
use parking_lot::Mutex;

pub use self::handler::Subscription;
pub(crate) use self::mirror::Drops;
pub use self::mirror::{Egress, Ingested};
pub use self::queue::{Bound, Interest};
pub use self::receipt::{Receipt, Receipts};

use self::origins::Origins;
use self::queue::{Queue, Tap};
use self::receipt::{Blocking, Hold};
use crate::log::sequence::Released;
use crate::{EntityEvent, EventLog};

/// The process's events. Cheap to clone; all clones are the same bus.
#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    origin: String,
    origins: Mutex<Origins>,
    queues: Mutex<Vec<Arc<Queue>>>,
    /// The log that determines the order of logged events.
    log: OnceLock<EventLog>,
    blocking: Arc<Blocking>,
    published: AtomicU64,
    handler_panics: Arc<AtomicU64>,
}

impl Bus {
    /// A bus without subscribers. Its name among the replicas is drawn from `ambient`.
    pub fn new(ambient: &Ambient) -> Self {
        Self(Arc::new(Inner {
            origin: ambient.uuid().to_string(),
            origins: Mutex::default(),
            queues: Mutex::default(),
            log: OnceLock::new(),
            blocking: Arc::default(),
            published: AtomicU64::new(0),
            handler_panics: Arc::default(),
        }))
    }

    /// Publishes a committed write. Call it after the commit, in commit order, from any thread: it never waits.
    ///
    /// If streams may block writers, the writer's answer waits for the receipt; see [`Receipt::wait`].
    pub fn publish(&self, event: EntityEvent) -> Receipt {
        self.publish_all(vec![event])
    }

    /// Publishes the writes of one transaction, in this order and without other events in between.
    pub fn publish_all(&self, events: Vec<EntityEvent>) -> Receipt {
        let limit = self.0.blocking.limit(events.iter().map(EntityEvent::table));
        let (hold, receipt) = match limit.map(Hold::new) {
            Some((hold, receipt)) => (Some(hold), receipt),
            None => (None, Receipt::none()),
        };
        self.0.publish(events, hold.as_ref());
        receipt
    }

    /// Publishes another replica's write. The event is flagged as remote, and no writer waits for streams.
    pub fn publish_remote(&self, event: EntityEvent) {
        self.0.publish(vec![event.into_remote()], None);
    }

    /// Calls `handler` for every event of `interest`, one after the other and in order, in a separate task. Needs a
    /// Tokio runtime.
    ///
    /// A slow handler delays only itself. Its queue is limited by [`Bound::default`]: 65,536 events or 64 MiB of
    /// records; beyond that the oldest are dropped. A handler that panics loses that event and is called for the next.
    /// Delivery is best effort: a consumer that must not miss an event uses the outbox.
    ///
    /// With fan-out every replica's handlers see every event: a handler that writes or derives a new event must skip
    /// those with [`EntityEvent::is_remote`], or use [`Interest::local`].
    pub fn on<F, Fut>(&self, interest: Interest, handler: F) -> Subscription
    where
        F: Fn(Arc<EntityEvent>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_bounded(interest, Bound::default(), handler)
    }

    /// [`Bus::on`] with another bound.
    pub fn on_bounded<F, Fut>(&self, interest: Interest, bound: Bound, handler: F) -> Subscription
    where
        F: Fn(Arc<EntityEvent>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let tap = self.tap("handler", interest, bound, false);
        handler::spawn(tap, self.0.handler_panics.clone(), handler)
    }

    /// How many events were published, including those of other replicas.
    pub fn published(&self) -> u64 {
        self.0.published.load(Ordering::Relaxed)
    }

    /// How many events the current in-process subscribers lost because they were too slow.
    pub fn dropped(&self) -> u64 {
        self.0.queues.lock().iter().map(|queue| queue.dropped()).sum()
    }

    /// How many times a handler panicked.
    pub fn handler_panics(&self) -> u64 {
        self.0.handler_panics.load(Ordering::Relaxed)
    }

    /// From now on events with a position go out in the log's order, and once each.
    pub(crate) fn take_order_from(&self, log: EventLog) {
        if self.0.log.set(log).is_err() {
            tracing::error!("a bus follows one event log; the second one is ignored");
        }
    }

    /// Publishes logged events in their turn. The caller holds the log's sequence, so that no event overtakes another.
    pub(crate) fn release(&self, released: Released) {
        self.0.release(released);
    }

    /// Events were lost before they came here: streams get what they missed from the log.
    pub(crate) fn lose(&self) {
        self.0.queues.lock().iter().for_each(|queue| queue.lose());
    }

    pub(crate) fn downgrade(&self) -> WeakBus {
        WeakBus(Arc::downgrade(&self.0))
    }

    /// This bus's name among the replicas.
    pub(crate) fn origin(&self) -> &str {
        &self.0.origin
    }

    pub(crate) fn blocking(&self) -> &Arc<Blocking> {
        &self.0.blocking
    }

    pub(crate) fn tap(&self, name: &'static str, interest: Interest, bound: Bound, carries_holds: bool) -> Tap {
        let (queue, tap) = Queue::new(name, interest, bound, carries_holds);
        let mut queues = self.0.queues.lock();
        queues.retain(|queue| !queue.is_closed());
        queues.push(queue);
        tap
    }
}

/// A bus that may have been dropped.
pub(crate) struct WeakBus(Weak<Inner>);

impl WeakBus {
    pub(crate) fn upgrade(&self) -> Option<Bus> {
        self.0.upgrade().map(Bus)
    }
}

impl Inner {
    fn publish(&self, events: Vec<EntityEvent>, hold: Option<&Hold>) {
        let Some(log) = self.log.get() else { return self.spread(events, hold) };
        let (logged, others): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.position().is_some());
        if !others.is_empty() {
            self.spread(others, hold);
        }
        let arrived = logged.into_iter().filter_map(|event| Some((event.position()?, event, hold.cloned())));
        let mut sequence = log.0.sequence.lock();
        self.release(sequence.arrive(arrived));
        if !sequence.is_whole() {
            log.0.wake.notify_one();
        }
    }

    fn release(&self, released: Released) {
        for (pending, _passed) in released {
            self.spread(vec![pending.event], pending.hold.as_ref());
        }
    }

    fn spread(&self, events: Vec<EntityEvent>, hold: Option<&Hold>) {
        self.published.fetch_add(events.len() as u64, Ordering::Relaxed);
        let queues = self.queues.lock();
        if queues.is_empty() {
            return;
        }
        for event in events {
            let event = Arc::new(event);
            for queue in queues.iter() {
                queue.offer(&event, hold);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for queue in self.queues.get_mut() {
            queue.close();
        }
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").field("origin", &self.0.origin).finish_non_exhaustive()
    }
}
