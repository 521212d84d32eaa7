//! From the backend onto the bus.

use std::sync::Arc;

use super::shared::{Shared, count};
use super::{Fanout, FanoutError, Received, Receiver};
use crate::bus::{Bus, Ingested};

/// The prefix of every probe; the rest is its sender's name.
pub(super) const PROBE: &[u8] = b"probe ";

/// Probes that may be missing before the channel counts as dead.
const SILENT_FOR: u32 = 3;

/// Messages that are published before others on the same thread have a turn.
const RUN: u32 = 256;

pub(super) async fn run(bus: Bus, backend: Arc<dyn Fanout>, shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        let error = match shared.with_timeout(backend.listen()).await {
            Ok(mut receiver) => {
                failures = 0;
                shared.works(&shared.receives);
                receive(&mut *receiver, &bus, &shared).await
            }
            Err(error) => error,
        };
        shared.fails(&shared.receives, &error);
        failures += 1;
        tokio::time::sleep(shared.pause(failures)).await;
    }
}

/// Publishes received messages until the channel ends.
async fn receive(receiver: &mut dyn Receiver, bus: &Bus, shared: &Shared) -> FanoutError {
    let silence = shared.options.probe * SILENT_FOR;
    let mut noisy = false;
    for heard in 1_u32.. {
        let message = match tokio::time::timeout(silence, receiver.next()).await {
            Ok(Ok(Received::Message(message))) => Some(message),
            Ok(Ok(Received::Noise)) => None,
            Ok(Ok(Received::Own)) => continue,
            Ok(Err(error)) => return error,
            Err(_) => return FanoutError::new("nothing is received any more, not even what this server sent"),
        };
        let reason = match message {
            Some(message) if message.starts_with(PROBE) => continue,
            Some(message) => take(&message, bus, shared).err(),
            None => Some("it is not a message of this version".to_owned()),
        };
        if let Some(reason) = reason {
            count(&shared.counters.malformed, 1);
            // Logged once for each connection: a client that writes invalid messages to the channel must not fill the
            // log.
            if !std::mem::replace(&mut noisy, true) {
                tracing::warn!(backend = shared.name, reason, "a fan-out message is not an event and was dropped");
            }
        }
        if heard % RUN == 0 {
            tokio::task::yield_now().await;
        }
    }
    FanoutError::new("the count of messages is at its end")
}

fn take(message: &[u8], bus: &Bus, shared: &Shared) -> Result<(), String> {
    let counters = &shared.counters;
    match bus.ingest(message).map_err(|error| error.to_string())? {
        Ingested::Own => {}
        Ingested::Again | Ingested::OtherLog => count(&counters.repeated, 1),
        Ingested::Published { missed } => {
            count(&counters.received, 1);
            count(&counters.missed, missed);
        }
    }
    Ok(())
}
