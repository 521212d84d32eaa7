use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gatewright_base::Principal;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::body::EventBody;
use super::catch_up;
use super::frame::{self, Gap, OPENING};
use super::heartbeat::TICKS;
use super::lanes::{Job, Lane, Lanes};
use super::options::StreamOptions;
use super::registry::{Most, Name, NoSeat, Registry, Seat};
use super::ring::{End, Ring};
use super::subscribe::{MAX_SUBSCRIBER_ID, Refused, Subscribe};
use super::subscriber::{Due, Outgoing, Progress, Subscriber};
use crate::bus::queue::{Entry, Queue};
use crate::bus::receipt::Blocking;
use crate::{Cursor, EventLog};

/// Events that a stream gets before its connection has a turn. Well under a stream's buffer, so that a client which reads
/// loses nothing to a burst from one transaction.
const TOGETHER: usize = 8;

/// Pages of the log that are read at a time for streams that are behind.
const CATCH_UPS: usize = 8;

/// From where a stream of a log starts.
struct Start {
    ready: Cursor,
    from: Resume,
}

/// From where a stream reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resume {
    /// It does not: it starts with what comes next.
    Now,
    /// From where it is.
    Progress,
    /// The position is none of this log.
    Unknown,
}

impl Start {
    fn new(log: &EventLog, since: Option<Cursor>) -> Self {
        match since {
            None => Self { ready: log.cursor(), from: Resume::Now },
            Some(since) if log.is_ours(&since) => Self { ready: since, from: Resume::Progress },
            Some(_) => Self { ready: log.cursor(), from: Resume::Unknown },
        }
    }

    fn resumes(&self) -> bool {
        self.from != Resume::Now
    }
}

/// What all streams share.
pub(super) struct Broker {
    pub(super) options: StreamOptions,
    pub(super) stop: CancellationToken,
    pub(super) rechecks: Semaphore,
    /// Reads of the log for streams that are behind.
    pub(super) catch_ups: Semaphore,
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
            catch_ups: Semaphore::new(CATCH_UPS),
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
        let since = match &request.params.since {
            Some(since) => Some(Cursor::parse(since).ok_or(Refused::Cursor)?),
            None => None,
        };
        let start = self.options.log.as_ref().map(|log| Start::new(log, since));
        let opening = start.as_ref().map_or(Bytes::from_static(OPENING), |start| frame::ready(&start.ready));
        let progress = start.as_ref().map(|start| {
            Mutex::new(Progress { passed: start.ready.position, behind: start.resumes(), ..Progress::default() })
        });
        let blocks = request.params.block && self.options.allow_client_slow_mode;
        let now = self.now();
        let (table, seat) = (request.table.clone(), Seat::of(&request));
        let make = |id, name, seat, condition| Subscriber {
            id,
            seat,
            blocks,
            condition,
            ring: Ring::new(blocks, opening),
            blocking: Mutex::new(
                blocks.then(|| self.blocking.enter(request.table.clone(), self.options.block_timeout)),
            ),
            table: request.table,
            caller: request.caller,
            name,
            filter: Mutex::new(request.filter),
            recheck: request.recheck,
            admit: request.admit,
            tags: request.tags,
            progress,
            seatless: false.into(),
            due: Due::first(now, id),
        };
        let seated = {
            let mut registry = self.registry.lock();
            let most = Most {
                all: self.options.max_subscribers,
                caller: self.options.max_subscribers_per_caller,
                address: self.options.max_subscribers_per_address,
            };
            let seated = registry.seat(most, &table, name, seat, request.condition, make);
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
                if let Some(start) = start.filter(Start::resumes) {
                    tokio::spawn(catch_up::run(self.clone(), subscriber.clone(), Gap::Expired, start.from));
                }
                Ok(EventBody::new(self.clone(), subscriber))
            }
            Err(no_seat) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(match no_seat {
                    NoSeat::Closing => Refused::ShuttingDown,
                    NoSeat::Share => Refused::TooMany { retry_after: self.options.heartbeat },
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

    /// Queues a batch of events for the streams of their tables.
    pub(super) fn queue(self: &Arc<Self>, batch: &mut Vec<Entry>, lanes: &mut Lanes) {
        while let Some(first) = batch.first() {
            let table = first.event.shared_table().clone();
            let of_table = batch.extract_if(.., |entry| entry.event.table() == &*table);
            let Some(listed) = self.registry.lock().of(&table) else {
                of_table.for_each(drop);
                continue;
            };
            let mut of_table = of_table.peekable();
            while of_table.peek().is_some() {
                let (events, holds): (Vec<_>, Vec<_>) = of_table
                    .by_ref()
                    .take(TOGETHER)
                    .map(|Entry { event, hold }| {
                        (Outgoing::new(event, self.options.json_case, self.options.log.as_ref()), hold)
                    })
                    .unzip();
                let events: Arc<[Outgoing]> = events.into();
                let everything = (!listed.open.is_empty()).then(|| (Lane::Table(table.clone()), &listed.open));
                let filtered = listed.filtered.iter().map(|(caller, streams)| (Lane::Caller(caller.clone()), streams));
                for (lane, streams) in everything.into_iter().chain(filtered) {
                    for dropped in lanes.push(lane, Job::new(streams.clone(), events.clone(), &holds)) {
                        match self.options.log {
                            Some(_) => dropped.members.iter().for_each(|member| self.fall_behind(member)),
                            None => self.count_dropped((dropped.members.len() * dropped.events.len()) as u64),
                        }
                    }
                }
            }
        }
    }

    /// Has a stream get its events from the log until it has caught up.
    pub(super) fn catch_up(self: &Arc<Self>, subscriber: &Arc<Subscriber>, gap: Gap) {
        tokio::spawn(catch_up::run(self.clone(), subscriber.clone(), gap, Resume::Progress));
    }

    /// Events were dropped before the stream got them.
    fn fall_behind(self: &Arc<Self>, subscriber: &Arc<Subscriber>) {
        let Some(progress) = &subscriber.progress else { return };
        let was_behind = {
            let mut progress = progress.lock();
            progress.missed = true;
            std::mem::replace(&mut progress.behind, true)
        };
        if !was_behind {
            self.catch_up(subscriber, Gap::Overflow);
        }
    }

    pub(super) fn all_fall_behind(self: &Arc<Self>) {
        self.members().iter().for_each(|subscriber| self.fall_behind(subscriber));
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

    /// Seats nobody any more and ends every stream after what is queued for it.
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
    fn members(&self) -> Vec<Arc<Subscriber>> {
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
