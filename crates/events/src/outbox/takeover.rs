use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_db::Error;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use super::context::Context;

/// How often a relay that holds deliveries says that it lives, and looks for others that do not.
const EVERY: Duration = Duration::from_secs(1);
/// Looks in a row, after the first one, that find no sign of life of a relay that holds deliveries.
const SILENT_LOOKS: u32 = 3;

/// Deliveries that a worker holds, for the task that beats.
pub(super) type Holding = Arc<AtomicUsize>;

/// Takes over what relays hold that have died, long before their leases end.
///
/// A relay that holds deliveries writes a new number into its row of `event_outbox_relay` every second. One that has
/// not done so over several looks in a row is dead, and its deliveries are given back. No clocks are compared: who
/// looks counts its own looks, and a look that failed or came late begins anew. So a database that was away, or a
/// process that stood still, makes nobody else look dead.
///
/// A relay that was only very slow finds its leases gone: it can no longer settle what is another's now.
pub(super) struct Takeover {
    context: Arc<Context>,
    holding: Vec<Holding>,
    wakers: Vec<Arc<Notify>>,
    beats: i64,
    peers: HashMap<String, Peer>,
    looked: Instant,
}

/// Another relay that holds deliveries.
#[derive(Debug, Clone, Copy)]
struct Peer {
    beats: i64,
    silent: u32,
}

impl Takeover {
    pub(super) fn new(context: Arc<Context>, holding: Vec<Holding>, wakers: Vec<Arc<Notify>>) -> Self {
        Self { context, holding, wakers, beats: 0, peers: HashMap::new(), looked: Instant::now() }
    }

    pub(super) async fn run(mut self) {
        let context = self.context.clone();
        let mut round = tokio::time::interval(EVERY);
        round.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = round.tick() => {}
                () = context.stop.cancelled() => {
                    if let Err(error) = context.deliveries.forget_relay().await {
                        tracing::debug!(%error, "the row of a relay that ends was not removed");
                    }
                    return;
                }
            }
            let done = self.round().await;
            if context.outage.note("look after other relays", done).is_none() {
                self.peers.clear();
            }
        }
    }

    async fn round(&mut self) -> Result<(), Error> {
        if self.holding.iter().any(|holding| holding.load(Ordering::Relaxed) > 0) {
            self.beats += 1;
            self.context.deliveries.beat(self.beats).await?;
        }
        let found = self.context.deliveries.holders().await?;
        if self.looked.elapsed() > EVERY * 3 {
            self.peers.clear();
        }
        self.looked = Instant::now();
        let mut peers = HashMap::new();
        for (relay, beats) in found {
            let silent = match self.peers.get(&relay) {
                Some(before) if before.beats == beats => before.silent + 1,
                _ => 0,
            };
            if silent < SILENT_LOOKS {
                peers.insert(relay, Peer { beats, silent });
                continue;
            }
            let deliveries = self.context.deliveries.take_over(&relay, beats).await?;
            if deliveries > 0 {
                tracing::warn!(relay, deliveries, "an outbox relay has died; its deliveries are retried");
                self.wakers.iter().for_each(|wake| wake.notify_one());
            }
        }
        self.peers = peers;
        Ok(())
    }
}
