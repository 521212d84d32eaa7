use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gatewright_base::{Principal, Shares, Turn};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::options::StreamOptions;
use super::pages::Pages;
use super::registry::Registry;
use super::ring::End;
use super::subscriber::Subscriber;
use super::ticks::TICKS;
use crate::bus::queue::Queue;
use crate::bus::receipt::Blocking;

/// Streams that are behind and look through a page of the log at a time, and the most of them of one caller.
const CATCH_UPS: usize = 4;
const CATCH_UPS_OF_CALLER: usize = 2;

/// Numbers for the metrics. All except the first only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Seats in use now.
    pub subscribers: usize,
    /// Events passed to connections, counted once for each.
    pub delivered: u64,
    /// Events that streams lost because they were too slow, counted for each stream, and events that the broker did not
    /// process, counted once.
    pub dropped: u64,
    /// Streams refused because a limit was reached.
    pub refused: u64,
}

/// State that all streams share.
pub(super) struct Broker {
    pub(super) options: StreamOptions,
    pub(super) stop: CancellationToken,
    pub(super) rechecks: Semaphore,
    catch_ups: Semaphore,
    catch_ups_of_callers: Shares<Arc<str>>,
    pub(super) pages: Pages,
    epoch: tokio::time::Instant,
    pub(super) registry: Mutex<Registry>,
    pub(super) queue: Arc<Queue>,
    pub(super) blocking: Arc<Blocking>,
    emptied: Notify,
    delivered: AtomicU64,
    dropped: AtomicU64,
    pub(super) refused: AtomicU64,
    /// That the seats ran out was logged, and half of them have not been free since.
    pub(super) full: AtomicBool,
}

impl Broker {
    pub(super) fn new(mut options: StreamOptions, queue: Arc<Queue>, blocking: Arc<Blocking>) -> Self {
        options.heartbeat = options.heartbeat.max(Duration::from_millis(100));
        queue.set_asleep(true);
        Self {
            stop: CancellationToken::new(),
            rechecks: Semaphore::new(options.concurrent_rechecks.max(1)),
            catch_ups: Semaphore::new(CATCH_UPS),
            catch_ups_of_callers: Shares::new(CATCH_UPS_OF_CALLER),
            pages: Pages::default(),
            epoch: tokio::time::Instant::now(),
            registry: Mutex::default(),
            emptied: Notify::new(),
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            full: AtomicBool::new(false),
            options,
            queue,
            blocking,
        }
    }

    /// Waits for a stream's turn to evaluate a page of the log: first among its caller's. `None` when the broker has stopped.
    pub(super) async fn catch_up_turn(&self, subscriber: &Subscriber) -> Option<(Turn, SemaphorePermit<'_>)> {
        let own = self.catch_ups_of_callers.take(subscriber.seat.lane.clone()).await;
        Some((own, self.catch_ups.acquire().await.ok()?))
    }

    /// Ends one stream.
    pub(super) fn end(&self, subscriber: &Subscriber, end: End) {
        self.registry.lock().unlist(subscriber);
        subscriber.end(end);
    }

    /// Ends the streams of the callers that match, at once, and returns how many.
    pub(super) fn cut(&self, matches: impl Fn(&Principal) -> bool) -> usize {
        let mut cut = 0;
        for subscriber in &self.members() {
            if subscriber.caller.principal().is_some_and(|principal| matches(principal)) {
                self.end(subscriber, End::Cut);
                cut += 1;
            }
        }
        cut
    }

    /// Opens no more streams, and ends every stream after its queued events.
    pub(super) fn end_all(&self) {
        let members = {
            let mut registry = self.registry.lock();
            registry.close();
            registry.all()
        };
        for subscriber in &members {
            self.end(subscriber, End::Flushed);
        }
    }

    /// Opens no more streams.
    pub(super) fn close(&self) {
        self.registry.lock().close();
        self.stop.cancel();
    }

    /// A stream's connection has dropped its body.
    pub(super) fn release(&self, subscriber: &Subscriber) {
        let taken = {
            let mut registry = self.registry.lock();
            registry.release(subscriber);
            if registry.taken() == 0 {
                self.queue.set_asleep(true);
            }
            registry.taken()
        };
        if taken <= self.options.max_subscribers / 2 {
            self.full.store(false, Ordering::Relaxed);
        }
        subscriber.end(End::Cut);
        if taken == 0 {
            self.emptied.notify_waiters();
        }
    }

    /// Waits until no seat is in use.
    pub(super) async fn emptied(&self) {
        loop {
            let notified = self.emptied.notified();
            if self.subscribers() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// The streams to be looked after at the tick `now`. They are given to [`Broker::put_back`] afterwards.
    pub(super) fn take_due(&self, now: u64) -> Vec<Arc<Subscriber>> {
        self.registry.lock().take_due(now)
    }

    /// Schedules the next checks of streams, except those that have ended.
    pub(super) fn put_back(&self, subscribers: &[Arc<Subscriber>]) {
        let mut registry = self.registry.lock();
        for subscriber in subscribers {
            registry.put_back(subscriber);
        }
    }

    /// All streams.
    pub(super) fn members(&self) -> Vec<Arc<Subscriber>> {
        self.registry.lock().all()
    }

    /// The broker's clock, in ticks: [`TICKS`] of them to a heartbeat.
    pub(super) fn now(&self) -> u64 {
        let ticks = self.epoch.elapsed().as_nanos() / self.tick().as_nanos();
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    pub(super) fn tick(&self) -> Duration {
        self.options.heartbeat / u32::try_from(TICKS).unwrap_or(1)
    }

    pub(super) fn epoch(&self) -> tokio::time::Instant {
        self.epoch
    }

    pub(super) fn count_dropped(&self, events: u64) {
        self.dropped.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn count_delivered(&self, events: u64) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn subscribers(&self) -> usize {
        self.registry.lock().taken()
    }

    pub(super) fn stats(&self) -> StreamStats {
        StreamStats {
            subscribers: self.subscribers(),
            delivered: self.delivered.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed) + self.queue.dropped(),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
