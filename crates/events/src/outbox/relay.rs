use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::consumer::{Consumer, ConsumerError, Declared, Failure};
use super::context::Context;
use super::deliveries::Deliveries;
use super::expander::Expander;
use super::janitor::Janitor;
use super::outage::Outage;
use super::pull::{PullConsumer, Pulls};
use super::takeover::Takeover;
use super::worker::Worker;
use super::{Event, Outbox};

/// Collects the consumers of a [`Relay`]. From [`Outbox::relay`].
#[must_use = "nothing is delivered before start"]
pub struct RelayBuilder {
    outbox: Outbox,
    consumers: Vec<Consumer>,
    pulled: Vec<PullConsumer>,
}

/// Delivers staged events until it is dropped. Dropping it is like a crash: handlers are cancelled, and another relay
/// takes their deliveries over within seconds, or when the leases end. Use [`Relay::stop`] for an orderly stop.
#[must_use = "dropping the relay ends it"]
pub struct Relay {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    outbox: Outbox,
}

impl RelayBuilder {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { outbox, consumers: Vec::new(), pulled: Vec::new() }
    }

    /// Adds a consumer that runs `handler` for every event of a type. See [`Consumer::new`].
    pub fn consumer<F, Fut, E>(self, name: &str, event_type: &str, handler: F) -> Result<Self, ConsumerError>
    where
        F: Fn(Event) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        self.declare(Consumer::new(name, event_type, handler)?)
    }

    /// Adds a consumer. One name may take several types.
    pub fn declare(mut self, consumer: Consumer) -> Result<Self, ConsumerError> {
        let same = |other: &Consumer| other.name == consumer.name && other.event_type == consumer.event_type;
        if self.consumers.iter().any(same) || self.pulled.iter().any(|other| other.name() == &*consumer.name) {
            let (name, event_type) = (consumer.name.to_string(), consumer.event_type.to_string());
            return Err(ConsumerError::Twice { name, event_type });
        }
        self.consumers.push(consumer);
        Ok(self)
    }

    /// Creates deliveries for consumers that pull. Each needs a unique name.
    pub fn pulled(mut self, pulls: &Pulls) -> Result<Self, ConsumerError> {
        for consumer in pulls.consumers() {
            let taken = self.consumers.iter().any(|other| &*other.name == consumer.name())
                || self.pulled.iter().any(|other| other.name() == consumer.name());
            if taken {
                let (name, event_type) = (consumer.name().to_owned(), consumer.event_type().to_owned());
                return Err(ConsumerError::Twice { name, event_type });
            }
            self.pulled.push(consumer.clone());
        }
        Ok(self)
    }

    /// Starts delivering. Needs a Tokio runtime. One relay is enough for a process.
    pub fn start(self) -> Relay {
        let Self { outbox, consumers, pulled } = self;
        if consumers.is_empty() && pulled.is_empty() {
            tracing::warn!("the outbox has no consumer; staged events are not delivered");
        }
        outbox.0.staged.want(true);
        let stop = CancellationToken::new();
        let declared = consumers.iter().map(Declared::of).chain(pulled.iter().map(PullConsumer::declared));
        let declared: Vec<Declared> = declared.collect();
        let context = Arc::new(Context {
            deliveries: Deliveries::new(
                outbox.0.db.clone(),
                outbox.0.ambient.uuid().to_string(),
                &declared,
                outbox.0.options.budget.clone(),
            ),
            policy: outbox.0.options.policy(),
            outage: Outage::default(),
            stop: stop.clone(),
            outbox: outbox.clone(),
        });
        let mut tasks = JoinSet::new();
        let (mut wakers, mut holding) = (Vec::new(), Vec::new());
        for consumer in consumers {
            let wake = Arc::new(Notify::new());
            wakers.push(wake.clone());
            let worker = Worker::new(context.clone(), consumer, wake);
            holding.push(worker.holding());
            tasks.spawn(worker.run());
        }
        if !wakers.is_empty() {
            tasks.spawn(Takeover::new(context.clone(), holding, wakers.clone()).run());
        }
        for consumer in pulled {
            wakers.push(consumer.wake.clone());
            tasks.spawn(remind(context.clone(), consumer.wake));
        }
        tasks.spawn(Expander::new(context.clone(), wakers).run());
        tasks.spawn(Janitor::new(context.clone()).run());
        let listener = context;
        tasks.spawn(async move {
            tokio::select! {
                () = listener.outbox.0.staged.listen_to_replicas(&listener.deliveries.db) => {}
                () = listener.stop.cancelled() => {}
            }
        });
        Relay { stop, tasks, outbox }
    }
}

impl Relay {
    /// Claims nothing new, releases deliveries that have not begun, lets handlers finish for at most `drain`, and
    /// cancels the rest.
    pub async fn stop(mut self, drain: Duration) {
        self.stop.cancel();
        let finish = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(drain, finish).await.is_err() {
            tracing::warn!("outbox handlers did not finish in time; their deliveries are retried");
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.outbox.0.staged.want(false);
    }
}

/// Wakes one caller of a pull consumer from time to time: a lease or a delay may have ended, or a notice may be
/// missing.
async fn remind(context: Arc<Context>, wake: Arc<Notify>) {
    let mut poll = tokio::time::interval(context.outbox.0.options.poll_interval);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = poll.tick() => wake.notify_one(),
            () = context.stop.cancelled() => return,
        }
    }
}

impl fmt::Debug for RelayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayBuilder").field("consumers", &self.consumers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}
