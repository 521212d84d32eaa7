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

use super::consumer::{Advice, Failed};
use super::context::Context;
use super::counters::ConsumerCounters;
use super::deliveries::{Batch, Claimed};
use super::takeover::Holding;
use super::transition::{Lease, failed, later};
use super::{Consumer, Event};

/// The most deliveries claimed at a time.
const MOST: usize = 256;
/// The longest error that is kept, in bytes.
const LONGEST_ERROR: usize = 1_000;
/// How long the deliveries to one receiver rest at most because it asked for it.
const LONGEST_REST: Duration = Duration::from_hours(1);
/// The error of a delivery to a receiver that wants nothing any more.
const GONE: &str = "the endpoint answered 410 before, so it was not called";

/// Delivers to one consumer: claims, runs handlers, renews and settles, all at the same time.
///
/// Every delivery that it holds is in `held` with its lease until it is settled, released or taken over. A renewal and a
/// settlement never run at the same time, so that neither uses a lease that the other has just replaced. A claim can run
/// at the same time: a delivery that failed may be claimed again before its settlement is known here. So each claim has a
/// number, and the result of one claim does not affect the next.
pub(super) struct Worker {
    context: Arc<Context>,
    consumer: Consumer,
    wake: Arc<Notify>,
    counters: Arc<ConsumerCounters>,
    name: String,
    held: HashMap<Arc<str>, Held>,
    /// The number of held deliveries, for the task that writes the sign of life.
    holding: Holding,
    queue: VecDeque<(u64, Event)>,
    handlers: JoinSet<Ended>,
    /// Deliveries claimed so far, to number them by.
    claims: u64,
    ended: Vec<Ended>,
    jobs: FuturesUnordered<BoxFuture<'static, Done>>,
    state: State,
    /// How many deliveries to claim at once: few for a slow consumer, so that other replicas get some too.
    ahead: usize,
    claimed_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    claim: u64,
    lease: Lease,
    attempts: u32,
}

/// Running and pending work.
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
    /// The receiver wants nothing any more.
    gone: bool,
    /// The receiver wants nothing before.
    rest: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Ended {
    id: Arc<str>,
    claim: u64,
    error: Option<Failed>,
}

enum Done {
    Claimed { result: Result<Batch, Error>, full: usize },
    Settled { gone: Vec<Gone>, again: Vec<Ended>, result: Result<(), Error> },
    Renewed { kept: Vec<(u64, Arc<str>, Lease)>, lost: Vec<Gone>, result: Result<(), Error> },
    Released,
}

/// A delivery that this relay no longer owns.
struct Gone {
    id: Arc<str>,
    claim: u64,
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
            holding: Holding::default(),
            queue: VecDeque::new(),
            handlers: JoinSet::new(),
            claims: 0,
            ended: Vec::new(),
            jobs: FuturesUnordered::new(),
            state: State { look: true, ..State::default() },
            claimed_at: Instant::now(),
            context,
            consumer,
            wake,
        }
    }

    pub(super) fn holding(&self) -> Holding {
        self.holding.clone()
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
            self.holding.store(self.held.len(), Ordering::Relaxed);
            if self.state.stopping && self.handlers.is_empty() && self.jobs.is_empty() && self.ended.is_empty() {
                return;
            }
            tokio::select! {
                Some(done) = self.jobs.next(), if !self.jobs.is_empty() => self.finish(done),
                Some(ended) = self.handlers.join_next(), if !self.handlers.is_empty() => {
                    self.heed(ended.ok());
                    while let Some(ended) = self.handlers.try_join_next() {
                        self.heed(ended.ok());
                    }
                }
                () = tokio::time::sleep_until(self.state.rest.unwrap_or_else(Instant::now)), if self.state.rest.is_some() => {
                    self.state.rest = None;
                    self.state.look = true;
                }
                () = wake.notified() => self.state.look = true,
                _ = poll.tick() => {
                    self.state.look = true;
                    self.state.pause = false;
                }
                _ = renew.tick() => self.state.renew = true,
                () = context.stop.cancelled(), if !self.state.stopping => {
                    self.state.stopping = true;
                    self.release();
                }
            }
        }
    }

    /// Takes the end of a handler, and follows what its failure says about other deliveries.
    fn heed(&mut self, ended: Option<Ended>) {
        let Some(ended) = ended else { return };
        let advice = ended.error.as_ref().map_or(Advice::None, |failed| failed.advice);
        let wait = match advice {
            Advice::None | Advice::Hopeless => Duration::ZERO,
            Advice::After(wait) => wait.min(LONGEST_REST),
            Advice::Busy => {
                let failures = self.held.get(&ended.id).map_or(0, |held| held.attempts).saturating_add(1);
                self.context.policy.backoff.wait(failures, self.context.chance())
            }
            Advice::Never => {
                if !std::mem::replace(&mut self.state.gone, true) {
                    tracing::error!(
                        consumer = &*self.consumer.name,
                        "the endpoint answered 410: it is not called again before the server restarts"
                    );
                }
                Duration::ZERO
            }
        };
        self.ended.push(ended);
        if !wait.is_zero() {
            let until = Instant::now() + wait;
            self.state.rest = Some(self.state.rest.map_or(until, |rest| rest.max(until)));
            self.release();
        }
    }

    /// Starts all work that can start.
    fn begin(&mut self) {
        if self.state.gone {
            let refused = || Some(Failed { words: GONE.to_owned(), advice: Advice::Never });
            self.ended.extend(self.queue.drain(..).map(|(claim, event)| Ended {
                id: event.id,
                claim,
                error: refused(),
            }));
        }
        while self.handlers.len() < self.consumer.concurrency
            && let Some((claim, event)) = self.queue.pop_front()
        {
            let consumer = self.consumer.clone();
            self.handlers.spawn(async move {
                let id = event.id.clone();
                let cut = |failed: Failed| Failed { words: cut(&failed.words), ..failed };
                let error = consumer.handle(event).await.err().map(cut);
                Ended { id, claim, error }
            });
        }
        let state = &self.state;
        let may_claim = !state.stopping && !state.claiming && state.rest.is_none();
        if state.look && may_claim && self.queue.len() < self.consumer.concurrency {
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
                let Some(Batch { claimed, left }) = self.context.outage.note(&self.name, result) else { return };
                // If nothing fits into memory, the next poll looks again.
                self.state.look |= !claimed.is_empty() && claimed.len() + left >= full;
                if left > 0 {
                    self.ahead = claimed.len().max(1);
                }
                for Claimed { event, attempts, lease } in claimed {
                    self.claims += 1;
                    self.held.insert(event.id.clone(), Held { claim: self.claims, lease, attempts });
                    self.queue.push_back((self.claims, event));
                }
                if self.state.stopping || self.state.rest.is_some() {
                    self.release();
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
                // The next event of a record may have waited for one of these.
                self.state.look |= self.consumer.ordered && !gone.is_empty();
            }
            Done::Renewed { kept, lost, result } => {
                self.state.renewing = false;
                self.context.outage.note(&self.name, result);
                for (claim, id, lease) in kept {
                    if let Some(held) = self.held.get_mut(&id).filter(|held| held.claim == claim) {
                        held.lease = lease;
                    }
                }
                for gone in &lost {
                    self.queue.retain(|(claim, _)| *claim != gone.claim);
                    self.forget(gone);
                }
            }
            Done::Released => {}
        }
    }

    fn claim(&mut self) {
        let quick = self.claimed_at.elapsed();
        // What waits for an ordered consumer is left to other replicas.
        let most = if self.consumer.ordered { self.consumer.concurrency } else { MOST };
        if quick < Duration::from_millis(100) {
            self.ahead = (self.ahead * 2).clamp(self.consumer.concurrency, most.max(self.consumer.concurrency));
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
        let mut succeeded: BTreeMap<Lease, Vec<(u64, Arc<str>)>> = BTreeMap::new();
        let mut failures = Vec::new();
        for ended in self.ended.drain(..) {
            // A delivery that was taken over is ignored here.
            let Some(held) = self.held.get(&ended.id).filter(|held| held.claim == ended.claim) else { continue };
            match ended.error {
                None => succeeded.entry(held.lease).or_default().push((ended.claim, ended.id)),
                Some(error) => failures.push((ended.id, *held, error)),
            }
        }
        self.state.settling = true;
        let (context, name) = (self.context.clone(), self.consumer.name.clone());
        self.jobs.push(Box::pin(async move {
            let (mut gone, mut again, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
            for (lease, claims) in succeeded {
                let ids: Vec<Arc<str>> = claims.iter().map(|(_, id)| id.clone()).collect();
                match context.deliveries.succeeded(&name, lease, &ids, context.outbox.now()).await {
                    Ok(settled) => gone.extend(claims.into_iter().map(|(claim, id)| {
                        let ours = settled.iter().any(|settled| **settled == *id);
                        Gone { id, claim, how: if ours { How::Delivered } else { How::TakenOver } }
                    })),
                    Err(error) => {
                        again.extend(claims.into_iter().map(|(claim, id)| Ended { id, claim, error: None }));
                        outcome = Err(error);
                    }
                }
            }
            let settle = |(id, held, error): (Arc<str>, Held, Failed)| {
                let (context, name) = (&context, &name);
                async move {
                    let now = context.outbox.now();
                    let (attempts, retry) = failed(held.attempts, now, &context.policy, context.chance());
                    let retry = match error.advice {
                        Advice::Never | Advice::Hopeless => None,
                        Advice::After(wait) => retry.map(|retry| retry.max(later(now, wait))),
                        Advice::None | Advice::Busy => retry,
                    };
                    let settled = context.deliveries.failed(name, held.lease, &id, attempts, retry, &error.words).await;
                    (id, held.claim, error, retry.is_none(), settled)
                }
            };
            for (id, claim, error, dead, settled) in join_all(failures.into_iter().map(settle)).await {
                match settled {
                    Ok(true) if dead => {
                        tracing::warn!(
                            consumer = &*name,
                            row = &*id,
                            "outbox delivery failed for the last time; no more retries"
                        );
                        gone.push(Gone { id, claim, how: How::Dead });
                    }
                    Ok(true) => gone.push(Gone { id, claim, how: How::Failed }),
                    Ok(false) => gone.push(Gone { id, claim, how: How::TakenOver }),
                    Err(failed) => {
                        again.push(Ended { id, claim, error: Some(error) });
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
        let mut due = self.by_lease(self.held.iter().map(|(id, held)| (held.claim, id.clone())));
        due.retain(|lease, _| *lease <= soon);
        if due.is_empty() {
            return;
        }
        self.state.renewing = true;
        let (context, name) = (self.context.clone(), self.consumer.name.clone());
        self.jobs.push(Box::pin(async move {
            let (mut kept, mut lost, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
            for (lease, claims) in due {
                let ids: Vec<Arc<str>> = claims.iter().map(|(_, id)| id.clone()).collect();
                match context.deliveries.renew(&name, lease, &ids, context.outbox.now(), &context.policy).await {
                    Ok((lease, renewed)) => {
                        for (claim, id) in claims {
                            if renewed.iter().any(|renewed| **renewed == *id) {
                                kept.push((claim, id, lease));
                            } else {
                                lost.push(Gone { id, claim, how: How::TakenOver });
                            }
                        }
                    }
                    Err(error) => outcome = Err(error),
                }
            }
            Done::Renewed { kept, lost, result: outcome }
        }));
    }

    /// Releases deliveries that have not begun. If that fails, their leases expire.
    fn release(&mut self) {
        let waiting: Vec<_> = self.queue.drain(..).map(|(claim, event)| (claim, event.id)).collect();
        let leases = self.by_lease(waiting.into_iter());
        for (_, id) in leases.values().flatten() {
            self.held.remove(id);
        }
        let (context, name) = (self.context.clone(), self.consumer.name.clone());
        self.jobs.push(Box::pin(async move {
            for (lease, claims) in leases {
                let ids: Vec<Arc<str>> = claims.into_iter().map(|(_, id)| id).collect();
                if let Err(error) = context.deliveries.release(&name, lease, &ids).await {
                    tracing::debug!(%error, "outbox deliveries could not be given back");
                }
            }
            Done::Released
        }));
    }

    /// The claims in `claims` that are still held, by their leases.
    fn by_lease(&self, claims: impl Iterator<Item = (u64, Arc<str>)>) -> BTreeMap<Lease, Vec<(u64, Arc<str>)>> {
        let mut leases: BTreeMap<Lease, Vec<(u64, Arc<str>)>> = BTreeMap::new();
        for (claim, id) in claims {
            if let Some(held) = self.held.get(&id).filter(|held| held.claim == claim) {
                leases.entry(held.lease).or_default().push((claim, id));
            }
        }
        leases
    }

    fn forget(&mut self, gone: &Gone) {
        if self.held.get(&gone.id).is_some_and(|held| held.claim == gone.claim) {
            self.held.remove(&gone.id);
        }
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
                    "another relay took over an outbox delivery"
                );
                count(&self.counters.taken_over)
            }
        };
    }
}

/// Cuts `text` if it is too long, and removes characters that Postgres cannot store.
fn cut(text: &str) -> String {
    let mut text = text.replace('\0', "");
    if text.len() > LONGEST_ERROR {
        let end = (0..=LONGEST_ERROR).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests;
