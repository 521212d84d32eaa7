use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use gatewright_db::Error;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::counters::ConsumerCounters;
use super::deliveries::Claimed;
use super::relay::Context;
use super::transition::{Lease, failed, later};
use super::{Consumer, Event};

/// The most deliveries claimed at a time.
const MOST: usize = 256;
/// The longest error that is kept, in bytes.
const LONGEST_ERROR: usize = 1_000;

/// Delivers to one consumer: claims, runs handlers, renews and settles, all at the same time.
///
/// Whatever it holds stands in `held` with its lease until it is settled, given back or taken over. No renewal is under
/// way together with a settlement, so that neither asks for a lease that the other has just replaced.
pub(super) struct Worker {
    context: Arc<Context>,
    consumer: Consumer,
    wake: Arc<Notify>,
    counters: Arc<ConsumerCounters>,
    name: String,
    held: HashMap<Arc<str>, Held>,
    queue: VecDeque<Event>,
    handlers: JoinSet<Ended>,
    ended: Vec<Ended>,
    jobs: FuturesUnordered<BoxFuture<'static, Done>>,
    state: State,
    /// How many deliveries to claim at a time: few from a slow consumer, so that other replicas have some too.
    ahead: usize,
    claimed_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    lease: Lease,
    attempts: u32,
}

/// What goes on, and what is to begin.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are independent of each other")]
struct State {
    stopping: bool,
    claiming: bool,
    settling: bool,
    renewing: bool,
    /// There may be something to claim.
    look: bool,
    /// Leases are to be renewed.
    renew: bool,
    /// A settlement failed: wait for the next poll.
    pause: bool,
}

#[derive(Debug, Clone)]
struct Ended {
    id: Arc<str>,
    error: Option<String>,
}

enum Done {
    Claimed { result: Result<Vec<Claimed>, Error>, full: usize },
    Settled { gone: Vec<Gone>, again: Vec<Ended>, result: Result<(), Error> },
    Renewed { kept: Vec<(Lease, Vec<String>)>, lost: Vec<Arc<str>>, result: Result<(), Error> },
    Released,
}

/// A delivery that is not ours any more.
struct Gone {
    id: Arc<str>,
    how: How,
}

enum How {
    Delivered,
    Failed,
    Dead,
    TakenOver,
}

impl Worker {
    pub(super) fn new(context: Arc<Context>, consumer: Consumer, wake: Arc<Notify>) -> Self {
        Self {
            counters: context.outbox.0.counters.consumer(&consumer.name),
            name: format!("deliver to {}", consumer.name),
            ahead: consumer.concurrency,
            held: HashMap::new(),
            queue: VecDeque::new(),
            handlers: JoinSet::new(),
            ended: Vec::new(),
            jobs: FuturesUnordered::new(),
            state: State { look: true, ..State::default() },
            claimed_at: Instant::now(),
            context,
            consumer,
            wake,
        }
    }

    pub(super) async fn run(mut self) {
        let context = self.context.clone();
        let wake = self.wake.clone();
        let mut poll = tokio::time::interval(context.outbox.0.options.poll_interval);
        let mut renew = tokio::time::interval((context.policy.lease / 3).max(Duration::from_millis(1)));
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.begin();
            if self.state.stopping && self.handlers.is_empty() && self.jobs.is_empty() && self.ended.is_empty() {
                return;
            }
            tokio::select! {
                Some(done) = self.jobs.next(), if !self.jobs.is_empty() => self.finish(done),
                Some(ended) = self.handlers.join_next(), if !self.handlers.is_empty() => {
                    self.ended.extend(ended.ok());
                    while let Some(ended) = self.handlers.try_join_next() {
                        self.ended.extend(ended.ok());
                    }
                }
                () = wake.notified() => self.state.look = true,
                _ = poll.tick() => {
                    self.state.look = true;
                    self.state.pause = false;
                }
                _ = renew.tick() => self.state.renew = true,
                () = context.stop.cancelled(), if !self.state.stopping => {
                    self.state.stopping = true;
                    let waiting = self.queue.drain(..).map(|event| event.id).collect();
                    self.release(waiting);
                }
            }
        }
    }

    /// Begins whatever can begin.
    fn begin(&mut self) {
        while self.handlers.len() < self.consumer.concurrency
            && let Some(event) = self.queue.pop_front()
        {
            let consumer = self.consumer.clone();
            self.handlers.spawn(async move {
                let id = event.id.clone();
                let error = consumer.handle(event).await.err().map(|error| cut(&error));
                Ended { id, error }
            });
        }
        let state = &self.state;
        if state.look && !state.stopping && !state.claiming && self.queue.len() < self.consumer.concurrency {
            self.claim();
        }
        let quiet = !self.state.settling && !self.state.renewing;
        if quiet && !self.state.pause && !self.ended.is_empty() {
            self.settle();
        } else if quiet && self.state.renew {
            self.renew();
        }
    }

    fn finish(&mut self, done: Done) {
        match done {
            Done::Claimed { result, full } => {
                self.state.claiming = false;
                let Some(claimed) = self.context.outage.note(&self.name, result) else { return };
                self.state.look |= claimed.len() >= full;
                for Claimed { event, attempts, lease } in claimed {
                    self.held.insert(event.id.clone(), Held { lease, attempts });
                    self.queue.push_back(event);
                }
                if self.state.stopping {
                    let waiting = self.queue.drain(..).map(|event| event.id).collect();
                    self.release(waiting);
                }
            }
            Done::Settled { gone, again, result } => {
                self.state.settling = false;
                self.state.pause = result.is_err();
                self.context.outage.note(&self.name, result);
                for gone in &gone {
                    self.forget(gone);
                }
                self.ended.extend(again);
            }
            Done::Renewed { kept, lost, result } => {
                self.state.renewing = false;
                self.context.outage.note(&self.name, result);
                for (lease, ids) in kept {
                    for id in ids {
                        if let Some(held) = self.held.get_mut(id.as_str()) {
                            held.lease = lease;
                        }
                    }
                }
                for id in lost {
                    self.queue.retain(|event| event.id != id);
                    self.forget(&Gone { id, how: How::TakenOver });
                }
            }
            Done::Released => {}
        }
    }

    fn claim(&mut self) {
        let quick = self.claimed_at.elapsed();
        if quick < Duration::from_millis(100) {
            self.ahead = (self.ahead * 2).clamp(self.consumer.concurrency, MOST.max(self.consumer.concurrency));
        } else if quick > Duration::from_secs(1) {
            self.ahead = self.consumer.concurrency;
        }
        self.claimed_at = Instant::now();
        self.state.claiming = true;
        self.state.look = false;
        let (context, consumer, full) = (self.context.clone(), self.consumer.clone(), self.ahead);
        self.jobs.push(Box::pin(async move {
            let now = context.outbox.now();
            let result = context.deliveries.claim(&consumer, full, now, &context.policy).await;
            Done::Claimed { result, full }
        }));
    }

    fn settle(&mut self) {
        let mut succeeded: BTreeMap<Lease, Vec<Arc<str>>> = BTreeMap::new();
        let mut failures = Vec::new();
        for Ended { id, error } in self.ended.drain(..) {
            // One that was taken over is nobody's here any more.
            let Some(held) = self.held.get(&id) else { continue };
            match error {
                None => succeeded.entry(held.lease).or_default().push(id),
                Some(error) => failures.push((id, *held, error)),
            }
        }
        self.state.settling = true;
        let (context, name) = (self.context.clone(), self.consumer.name.clone());
        self.jobs.push(Box::pin(async move {
            let (mut gone, mut again, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
            for (lease, ids) in succeeded {
                match context.deliveries.succeeded(&name, lease, &ids, context.outbox.now()).await {
                    Ok(settled) => gone.extend(ids.into_iter().map(|id| {
                        let ours = settled.iter().any(|settled| **settled == *id);
                        Gone { id, how: if ours { How::Delivered } else { How::TakenOver } }
                    })),
                    Err(error) => {
                        again.extend(ids.into_iter().map(|id| Ended { id, error: None }));
                        outcome = Err(error);
                    }
                }
            }
            let settle = |(id, held, error): (Arc<str>, Held, String)| {
                let (context, name) = (&context, &name);
                async move {
                    let now = context.outbox.now();
                    let (attempts, retry) = failed(held.attempts, now, &context.policy, context.chance());
                    let settled = context.deliveries.failed(name, held.lease, &id, attempts, retry, &error).await;
                    (id, error, retry.is_none(), settled)
                }
            };
            for (id, error, dead, settled) in join_all(failures.into_iter().map(settle)).await {
                match settled {
                    Ok(true) if dead => {
                        tracing::warn!(
                            consumer = &*name,
                            row = &*id,
                            "an outbox delivery is dead: it failed too often"
                        );
                        gone.push(Gone { id, how: How::Dead });
                    }
                    Ok(true) => gone.push(Gone { id, how: How::Failed }),
                    Ok(false) => gone.push(Gone { id, how: How::TakenOver }),
                    Err(failed) => {
                        again.push(Ended { id, error: Some(error) });
                        outcome = Err(failed);
                    }
                }
            }
            Done::Settled { gone, again, result: outcome }
        }));
    }

    fn renew(&mut self) {
        self.state.renew = false;
        let soon = later(self.context.outbox.now(), self.context.policy.lease * 2 / 3);
        let mut due = self.by_lease(self.held.keys().cloned());
        due.retain(|lease, _| *lease <= soon);
        if due.is_empty() {
            return;
        }
        self.state.renewing = true;
        let (context, name) = (self.context.clone(), self.consumer.name.clone());
        self.jobs.push(Box::pin(async move {
            let (mut kept, mut lost, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
            for (lease, ids) in due {
                match context.deliveries.renew(&name, lease, &ids, context.outbox.now(), &context.policy).await {
                    Ok((lease, renewed)) => {
                        lost.extend(ids.into_iter().filter(|id| !renewed.iter().any(|renewed| **renewed == **id)));
                        kept.push((lease, renewed));
                    }
                    Err(error) => outcome = Err(error),
                }
            }
            Done::Renewed { kept, lost, result: outcome }
        }));
    }

    /// Gives back what has not begun. If that fails, its leases end by themselves.
    fn release(&mut self, ids: Vec<Arc<str>>) {
        let leases = self.by_lease(ids.iter().cloned());
        for id in ids {
            self.held.remove(&id);
        }
        let (context, name) = (self.context.clone(), self.consumer.name.clone());
        self.jobs.push(Box::pin(async move {
            for (lease, ids) in leases {
                if let Err(error) = context.deliveries.release(&name, lease, &ids).await {
                    tracing::debug!(%error, "outbox deliveries could not be given back");
                }
            }
            Done::Released
        }));
    }

    fn by_lease(&self, ids: impl Iterator<Item = Arc<str>>) -> BTreeMap<Lease, Vec<Arc<str>>> {
        let mut leases: BTreeMap<Lease, Vec<Arc<str>>> = BTreeMap::new();
        for id in ids {
            if let Some(held) = self.held.get(&id) {
                leases.entry(held.lease).or_default().push(id);
            }
        }
        leases
    }

    fn forget(&mut self, gone: &Gone) {
        self.held.remove(&gone.id);
        let count = |counter: &std::sync::atomic::AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match gone.how {
            How::Delivered => count(&self.counters.delivered),
            How::Failed => count(&self.counters.failed),
            How::Dead => {
                count(&self.counters.failed);
                count(&self.counters.dead)
            }
            How::TakenOver => {
                tracing::warn!(
                    consumer = &*self.consumer.name,
                    row = &*gone.id,
                    "another relay took an outbox delivery over"
                );
                count(&self.counters.taken_over)
            }
        };
    }
}

/// Cuts `text` where it gets too long, and takes out what Postgres cannot store.
fn cut(text: &str) -> String {
    let mut text = text.replace('\0', "");
    if text.len() > LONGEST_ERROR {
        let end = (0..=LONGEST_ERROR).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
