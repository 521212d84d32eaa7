use std::sync::Weak;

use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use super::lanes::Lanes;
use crate::bus::queue::Tap;

/// Events taken off the bus at a time.
const BATCH: usize = 1_024;

/// Moves events from the bus to the streams until the broker stops or the bus is gone; then what is still on its way
/// is handed out and every stream is ended.
pub(super) async fn run(broker: Weak<Broker>, mut tap: Tap, stop: CancellationToken) {
    let mut batch = Vec::new();
    let mut lanes = Lanes::default();
    let mut dropped = 0;
    loop {
        if lanes.is_empty() {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                open = tap.fill(&mut batch, BATCH) => if !open { break },
            }
        } else if stop.is_cancelled() {
            break;
        } else {
            tap.fill_now(&mut batch, BATCH);
        }
        let Some(broker) = broker.upgrade() else { return };
        if std::mem::replace(&mut dropped, tap.queue().dropped()) != tap.queue().dropped() {
            // They were never offered to anybody here.
            broker.all_fall_behind();
        }
        broker.queue(&mut batch, &mut lanes);
        lanes.turn(&broker);
        tokio::task::yield_now().await;
    }
    let Some(broker) = broker.upgrade() else { return };
    while tap.fill_now(&mut batch, BATCH) || !lanes.is_empty() {
        broker.queue(&mut batch, &mut lanes);
        lanes.turn(&broker);
        tokio::task::yield_now().await;
    }
    broker.end_all();
}
