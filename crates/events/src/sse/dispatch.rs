use std::sync::Weak;

use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use crate::bus::queue::Tap;

/// Events handed out before the streams' own tasks have a turn. Well under a stream's buffer, so that a client which
/// reads loses nothing to a burst from one transaction.
const BATCH: usize = 8;

/// Moves events from the bus to the streams until the broker stops or the bus is gone; then what is still on its way
/// is handed out and every stream is ended.
pub(super) async fn run(broker: Weak<Broker>, mut tap: Tap, stop: CancellationToken) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            open = tap.fill(&mut batch, BATCH) => if !open { break },
        }
        let Some(broker) = broker.upgrade() else { return };
        broker.deliver(&mut batch).await;
        tokio::task::yield_now().await;
    }
    let Some(broker) = broker.upgrade() else { return };
    while tap.fill_now(&mut batch, BATCH) {
        broker.deliver(&mut batch).await;
        tokio::task::yield_now().await;
    }
    broker.end_all();
}
