use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gatewright_base::Principal;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::body::EventBody;
use super::frame;
use super::heartbeat::TICKS;
use super::options::StreamOptions;
use super::registry::{Name, NoSeat, Registry};
use super::ring::{End, Ring};
use super::subscribe::{MAX_SUBSCRIBER_ID, Refused, Subscribe};
use super::subscriber::{Due, Outgoing, Subscriber};
use crate::bus::queue::{Entry, Queue};
use crate::bus::receipt::Blocking;

/// Streams that get a batch of events before others on the same thread have a turn.
const RUN: usize = 512;

/// What all streams share.
pub(super) struct Broker {
    pub(super) options: StreamOptions,
    pub(super) stop: CancellationToken,
    pub(super) rechecks: Semaphore,
    epoch: tokio::time::Instant,
    registry: Mutex<Registry>,
    queue: Arc<Queue>,
    blocking: Arc<Blocking>,
    emptied: Notify,
    delivered: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    /// That the seats ran out was logged, and half of them have not been free since.
    full: AtomicBool,
}

impl Broker {
    pub(super) fn new(mut options: StreamOptions, queue: Arc<Queue>, blocking: Arc<Blocking>) -> Self {
        options.heartbeat = options.heartbeat.max(Duration::from_millis(100));
        queue.set_asleep(true);
        Self {
            stop: CancellationToken::new(),
            rechecks: Semaphore::new(options.concurrent_rechecks.max(1)),
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

    /// Seats a subscriber. From here on it gets every event that is published.
    pub(super) fn subscribe(self: &Arc<Self>, request: Subscribe) -> Result<EventBody, Refused> {
        let name = self.name_of(&request)?;
        let blocks = request.params.block && self.options.allow_client_slow_mode;
        let now = self.now();
        let make = |id, name| Subscriber {
            id,
            ring: Ring::new(blocks),
            blocking: Mutex::new(
                blocks.then(|| self.blocking.enter(request.table.clone(), self.options.block_timeout)),
            ),
            table: request.table,
            caller: request.caller,
            name,
            filter: Mutex::new(request.filter),
            recheck: request.recheck,
            seatless: false.into(),
            due: Due::first(now, id),
        };
        let seated = {
            let mut registry = self.registry.lock();
            let seated = registry.seat(self.options.max_subscribers, name, make);
            if seated.is_ok() {
                self.queue.set_asleep(false);
            }
            seated
        };
        match seated {
            Ok((subscriber, replaced)) => {
                if let Some(replaced) = replaced {
                    replaced.end(End::Flushed);
                }
                Ok(EventBody::new(self.clone(), subscriber))
            }
            Err(no_seat) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(match no_seat {
                    NoSeat::Closing => Refused::ShuttingDown,
                    NoSeat::Full => {
                        if !self.full.swap(true, Ordering::Relaxed) {
                            tracing::warn!(seats = self.options.max_subscribers, "all event stream seats are taken");
                        }
                        Refused::TooMany { retry_after: self.options.heartbeat }
                    }
                })
            }
        }
    }

    /// The name under which the caller's stream can be replaced; none where nobody says who the caller is.
    fn name_of(&self, request: &Subscribe) -> Result<Option<Name>, Refused> {
        let Some(subscriber_id) = &request.params.subscriber_id else {
            return Ok(None);
        };
        if subscriber_id.len() > MAX_SUBSCRIBER_ID {
            return Err(Refused::SubscriberId);
        }
        let principal = self.options.principal.as_ref().and_then(|name| name(&request.caller));
        Ok(principal.map(|principal| Name {
            table: request.table.clone(),
            principal,
            subscriber_id: subscriber_id.clone(),
        }))
    }

    /// Hands a batch of events to the streams of their tables.
    pub(super) async fn deliver(&self, batch: &mut Vec<Entry>) {
        let mut scratch = Vec::new();
        while let Some(first) = batch.first() {
            let table = first.event.shared_table().clone();
            let of_table = batch.extract_if(.., |entry| entry.event.table() == &*table);
            let Some(members) = self.registry.lock().of(&table) else {
                of_table.for_each(drop);
                continue;
            };
            let events: Vec<Outgoing> = of_table
                .map(|Entry { event, hold }| Outgoing {
                    frame: frame::encode(&event, self.options.json_case),
                    event,
                    hold,
                })
                .collect();
            for run in members.chunks(RUN) {
                for subscriber in run {
                    match subscriber.offer(&events, &mut scratch) {
                        Ok(dropped) => _ = self.dropped.fetch_add(dropped, Ordering::Relaxed),
                        Err(_bad_filter) => {
                            tracing::error!(table = &*table, "a stream's filter panicked; the stream is ended");
                            self.end(subscriber, End::Cut);
                        }
                    }
                }
                if members.len() > RUN {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Ends one stream.
    pub(super) fn end(&self, subscriber: &Subscriber, end: End) {
        self.registry.lock().unlist(subscriber);
        subscriber.end(end);
    }

    /// Ends the streams of the callers that match, at once, and returns how many.
    pub(super) fn cut(&self, matches: impl Fn(&Principal) -> bool) -> usize {
        let mut cut = 0;
        for subscriber in self.members().iter().flat_map(|members| members.iter()) {
            if subscriber.caller.principal().is_some_and(|principal| matches(principal)) {
                self.end(subscriber, End::Cut);
                cut += 1;
            }
        }
        cut
    }

    /// Seats nobody any more and ends every stream after what is queued for it.
    pub(super) fn end_all(&self) {
        let members = {
            let mut registry = self.registry.lock();
            registry.close();
            registry.all()
        };
        for subscriber in members.iter().flat_map(|members| members.iter()) {
            self.end(subscriber, End::Flushed);
        }
    }

    /// Seats nobody any more.
    pub(super) fn close(&self) {
        self.registry.lock().close();
        self.stop.cancel();
    }

    /// A stream's connection has let go of its body.
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

    /// Waits until no seat is taken.
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

    /// Has streams looked after again when they are next due, but for those that have ended.
    pub(super) fn put_back(&self, subscribers: &[Arc<Subscriber>]) {
        let mut registry = self.registry.lock();
        for subscriber in subscribers {
            registry.put_back(subscriber);
        }
    }

    /// All streams.
    fn members(&self) -> Vec<Arc<[Arc<Subscriber>]>> {
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

    pub(super) fn count_delivered(&self, events: u64) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn subscribers(&self) -> usize {
        self.registry.lock().taken()
    }

    pub(super) fn stats(&self) -> super::StreamStats {
        super::StreamStats {
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
