use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_db::Error;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use super::context::Context;

/// How often a relay that holds deliveries writes its sign of life, and checks those of others.
const EVERY: Duration = Duration::from_secs(1);
/// Number of checks in a row, after the first one, without a new sign of life, until a relay counts as dead.
const SILENT_LOOKS: u32 = 3;

/// The number of deliveries that a worker holds, for the task that writes the sign of life.
pub(super) type Holding = Arc<AtomicUsize>;

/// Takes over the deliveries of dead relays, long before their leases end.
///
/// A relay that holds deliveries writes a new number into its row of `event_outbox_relay` every second. If it has not
/// done so over several checks in a row, it is dead, and its deliveries are released. No clocks are compared: each
/// relay counts its own checks, and a check that failed or was late resets the count. So a database outage, or a
/// suspended process, makes no other relay look dead.
///
/// A relay that was only very slow loses its leases: it can no longer settle deliveries that another relay took.
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
