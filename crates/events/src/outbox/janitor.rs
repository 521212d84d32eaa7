use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gatewright_db::Error;
use jiff::Timestamp;
use tokio::time::MissedTickBehavior;

use super::context::Context;
use super::rows::{BATCH, Unknown};
use super::transition::{earlier, later};

/// The longest time between two rounds.
const LONGEST: Duration = Duration::from_secs(30);

/// Does work that is not urgent: dispatched rows, deliveries without a handler, and data to purge.
pub(super) struct Janitor {
    context: Arc<Context>,
    /// Consumers that this relay does not know, as they were when first seen.
    silent: HashMap<(String, String), (Unknown, Timestamp)>,
}

impl Janitor {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, silent: HashMap::new() }
    }

    pub(super) async fn run(mut self) {
        let context = self.context.clone();
        let options = &context.outbox.0.options;
        let often = options.poll_interval.min(LONGEST);
        let mut round = tokio::time::interval((options.handler_grace / 10).clamp(often, LONGEST));
        round.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = round.tick() => {}
                () = context.stop.cancelled() => return,
            }
            let done = self.round().await;
            if context.outage.note("tidy up", done).is_none() {
                // After a failure, the next round comes after one poll interval.
                round.reset_after(often);
            }
        }
    }

    async fn round(&mut self) -> Result<(), Error> {
        self.context.deliveries.set_due().await?;
        self.abandon().await?;
        self.context.deliveries.forget_idle_relays().await?;
        let context = &*self.context;
        let now = || context.outbox.now();
        let deliveries = &context.deliveries;
        while more(context, deliveries.complete(earlier(now(), context.policy.grace), now()).await?) {}
        if let Some(retention) = context.outbox.0.options.retention {
            while more(context, deliveries.purge(earlier(now(), retention)).await?) {}
        }
        Ok(())
    }

    /// Abandons the deliveries of consumers that have no handler anywhere.
    ///
    /// No communication with other replicas is needed, because a replica that handles a consumer changes its
    /// deliveries. A consumer is gone when it has deliveries older than the grace period and none of them has changed
    /// for a while.
    async fn abandon(&mut self) -> Result<(), Error> {
        let context = &self.context;
        let now = context.outbox.now();
        let cutoff = earlier(now, context.policy.grace);
        let quiet = context.policy.grace.min(LONGEST);
        let unknown = context.deliveries.unknown(cutoff).await?;
        let mut silent = HashMap::new();
        for unknown in unknown {
            let key = (unknown.consumer.clone(), unknown.event_type.clone());
            let since = match self.silent.remove(&key) {
                Some((before, since)) if before == unknown => since,
                _ => now,
            };
            if later(since, quiet) > now {
                silent.insert(key, (unknown, since));
                continue;
            }
            let mut abandoned = 0;
            loop {
                let some = context.deliveries.abandon(&unknown, cutoff, now).await?;
                abandoned += some;
                if !more(context, some) {
                    break;
                }
            }
            let (consumer, event_type) = key;
            tracing::warn!(
                consumer,
                event_type,
                abandoned,
                "outbox deliveries were abandoned: no replica handles them"
            );
        }
        self.silent = silent;
        Ok(())
    }
}

/// Whether a batch was full, so that there may be more to do.
fn more(context: &Context, done: u64) -> bool {
    done >= u64::try_from(BATCH).unwrap_or(u64::MAX) && !context.stop.is_cancelled()
}
