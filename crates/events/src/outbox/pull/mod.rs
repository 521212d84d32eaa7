//! Consumers that pull: a program requests events and acknowledges them, instead of being called.
//!
//! A pull claims deliveries for the time of a lease, as a relay does, but for an API token: only that token can
//! acknowledge or refuse them. A lease that ends without either counts as a failed attempt. Deliveries are made by the
//! relay's expander ([`RelayBuilder::pulled`](super::RelayBuilder::pulled)); `rows` has the statements, `waiting` bounds
//! how many callers wait, and this file decides what a pull returns.

mod consumer;
mod rows;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::TokenId;
use gatewright_db::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use consumer::PullConsumer;
pub use waiting::TooManyWaiting;

use self::rows::{Candidates, Rows};
use self::waiting::Waiting;
use super::counters::ConsumerCounters;
use super::transition::Lease;
use super::{Event, Outbox};

/// The most events in one answer.
pub const MAX_EVENTS: usize = 1_000;
/// The longest time that a pull waits for its first event.
pub const LONGEST_WAIT: Duration = Duration::from_secs(25);
/// The longest time for which a refused event is held back.
pub const LONGEST_DELAY: Duration = Duration::from_hours(24);
/// The minimum number of claimed deliveries, if some may belong to entities that the consumer does not take.
const FILTERED_AT_ONCE: usize = 100;
/// Claims in a row of which nothing is for the consumer, before a pull returns without an event.
const FRUITLESS: usize = 50;

/// The pull consumers of an outbox. Cheap to clone.
#[derive(Clone)]
pub struct Pulls(Arc<Inner>);

struct Inner {
    outbox: Outbox,
    consumers: Vec<(PullConsumer, Arc<ConsumerCounters>)>,
    rows: Rows,
    waiting: Waiting,
    closing: CancellationToken,
}

/// One delivery that a caller names when it acknowledges or refuses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The event's id.
    pub id: String,
    /// The attempt that the caller refers to; any, if absent.
    pub attempt: Option<u32>,
}

/// Why nothing was pulled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// No consumer that pulls has this name.
    #[error("there is no pull consumer {0:?}")]
    Unknown(String),
    /// The limit of waiting callers is reached.
    #[error(transparent)]
    TooManyWaiting(#[from] TooManyWaiting),
    /// The memory that the caller may take is used up.
    #[error("the caller's share of the memory budget is used up")]
    NoMemory,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

impl Pulls {
    /// The pull consumers of `outbox`. They get events once a relay that knows them has started.
    pub fn new(outbox: &Outbox, consumers: Vec<PullConsumer>) -> Self {
        let counters = &outbox.0.counters;
        let counted = |consumer: PullConsumer| {
            let counters = counters.consumer(consumer.name());
            (consumer, counters)
        };
        Self(Arc::new(Inner {
            rows: Rows::new(outbox.0.db.clone(), outbox.0.options.policy(), outbox.0.options.budget.clone()),
            outbox: outbox.clone(),
            consumers: consumers.into_iter().map(counted).collect(),
            waiting: Waiting::default(),
            closing: CancellationToken::new(),
        }))
    }

    /// The consumers.
    pub fn consumers(&self) -> impl Iterator<Item = &PullConsumer> {
        self.0.consumers.iter().map(|(consumer, _)| consumer)
    }

    /// The lease: how long a pulled event is reserved for the token that pulled it.
    pub fn lease(&self) -> Duration {
        self.0.outbox.0.options.lease
    }

    /// Takes up to `limit` events for `token`, the oldest first, and waits up to `wait` for the first one. No connection
    /// of the database is held while it waits.
    pub async fn pull(
        &self,
        name: &str,
        token: &TokenId,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Event>, PullError> {
        let (consumer, _) = self.0.find(name)?;
        let limit = limit.clamp(1, MAX_EVENTS);
        let events = self.take(consumer, token, limit).await?;
        if !events.is_empty() || wait.is_zero() {
            return Ok(events);
        }
        let _seat = self.0.waiting.enter(token)?;
        let deadline = Instant::now() + wait.min(LONGEST_WAIT);
        loop {
            tokio::select! {
                () = consumer.wake.notified() => {}
                () = tokio::time::sleep_until(deadline) => return Ok(Vec::new()),
                () = self.0.closing.cancelled() => return Ok(Vec::new()),
            }
            let events = self.take(consumer, token, limit).await?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    /// Acknowledges events that `token` holds. Returns the ids of those that it does not hold: their lease has ended,
    /// or the attempt is another one. An event that the same token has acknowledged before is not among them.
    pub async fn acknowledge(
        &self,
        name: &str,
        token: &TokenId,
        receipts: &[Receipt],
    ) -> Result<Vec<String>, PullError> {
        let (consumer, counters) = self.0.find(name)?;
        let settled = self.0.rows.acknowledge(consumer.name(), token, receipts, self.0.outbox.now()).await?;
        counters.delivered(settled.changed);
        Ok(settled.refused)
    }

    /// Refuses events that `token` holds. They count as failed and are delivered again after `delay`, or after the
    /// outbox's own backoff. Returns the ids of those that it does not hold, as [`Pulls::acknowledge`] does.
    pub async fn refuse(
        &self,
        name: &str,
        token: &TokenId,
        receipts: &[Receipt],
        delay: Option<Duration>,
    ) -> Result<Vec<String>, PullError> {
        let (consumer, counters) = self.0.find(name)?;
        let chance = u64::from_le_bytes(self.0.outbox.0.ambient.bytes());
        let now = self.0.outbox.now();
        let settled = self.0.rows.refuse(consumer.name(), token, receipts, now, delay, chance).await?;
        counters.failed(settled.changed, settled.dead);
        // With a delay of zero they are due for a waiting caller.
        consumer.wake.notify_one();
        Ok(settled.refused)
    }

    /// Answers every waiting caller with no events. For a server that is about to stop.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Takes events in a separate task, so that deliveries that were claimed for a disconnected caller are released.
    async fn take(&self, consumer: &PullConsumer, token: &TokenId, limit: usize) -> Result<Vec<Event>, PullError> {
        let (answer, answered) = oneshot::channel();
        let (all, consumer, token) = (self.clone(), consumer.clone(), token.clone());
        tokio::spawn(async move {
            let outcome = all.0.take(&consumer, &token, limit).await;
            let Err(Ok(unread)) = answer.send(outcome) else { return };
            let ids: Vec<String> = unread.events.iter().map(|event| event.id().to_owned()).collect();
            all.0.give_back(&consumer, &token, unread.lease, &ids).await;
        });
        answered.await.map_or_else(|_| Ok(Vec::new()), |outcome| outcome.map(|taken| taken.events))
    }
}

/// Events that were claimed by one lease.
struct Taken {
    events: Vec<Event>,
    lease: Lease,
}

impl Inner {
    fn find(&self, name: &str) -> Result<(&PullConsumer, &ConsumerCounters), PullError> {
        let found = self.consumers.iter().find(|(consumer, _)| consumer.name() == name);
        found.map(|(consumer, counters)| (consumer, &**counters)).ok_or_else(|| PullError::Unknown(name.to_owned()))
    }

    async fn take(&self, consumer: &PullConsumer, token: &TokenId, limit: usize) -> Result<Taken, PullError> {
        let ask = if consumer.takes_all() { limit } else { limit.max(FILTERED_AT_ONCE) };
        let (_, counters) =
            self.consumers.iter().find(|(known, _)| known.name() == consumer.name()).expect("it is ours");
        let mut lease = self.outbox.now();
        for _ in 0..FRUITLESS {
            let claimed = self.rows.claim(consumer, token, ask, self.outbox.now()).await?;
            counters.failed(claimed.expired, claimed.dead);
            lease = claimed.lease;
            let full = claimed.ids.len() + claimed.dead >= ask;
            let Candidates { events, mut rest } = self.rows.read(consumer, token, &claimed.ids).await?;
            let is_short = events.is_empty() && !rest.is_empty();
            let (mut wanted, unwanted): (Vec<_>, Vec<_>) =
                events.into_iter().partition(|event| consumer.takes(event.json()));
            rest.extend(wanted.split_off(limit.min(wanted.len())).into_iter().map(|event| event.id().to_owned()));
            if !unwanted.is_empty() {
                let receipts: Vec<Receipt> = unwanted.iter().map(Receipt::of).collect();
                let settled = self.rows.acknowledge(consumer.name(), token, &receipts, self.outbox.now()).await?;
                counters.delivered(settled.changed);
            }
            self.give_back(consumer, token, lease, &rest).await;
            if is_short {
                return Err(PullError::NoMemory);
            }
            if !wanted.is_empty() {
                if full || !rest.is_empty() {
                    // There may be more, for another waiting caller.
                    consumer.wake.notify_one();
                }
                return Ok(Taken { events: wanted, lease });
            }
            if !full && rest.is_empty() {
                break;
            }
        }
        Ok(Taken { events: Vec::new(), lease })
    }

    /// Releases claimed deliveries as if they had not been claimed. If that fails, their leases expire.
    async fn give_back(&self, consumer: &PullConsumer, token: &TokenId, lease: Lease, ids: &[String]) {
        if ids.is_empty() {
            return;
        }
        match self.rows.release(consumer.name(), token, lease, ids, self.outbox.now()).await {
            Ok(()) => consumer.wake.notify_one(),
            Err(error) => tracing::debug!(%error, "pulled events could not be given back"),
        }
    }
}

impl Receipt {
    fn of(event: &Event) -> Self {
        Self { id: event.id().to_owned(), attempt: None }
    }
}

impl std::fmt::Debug for Pulls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.consumers().map(PullConsumer::name).collect();
        f.debug_struct("Pulls").field("consumers", &names).finish_non_exhaustive()
    }
}
