//! From the bus into the backend. While one batch is being sent, further messages queue, and the next batch takes them
//! all: under load there are fewer round trips for each event.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Instant, MissedTickBehavior};

use super::Fanout;
use super::shared::{Shared, count};
use crate::bus::Egress;

/// The most events and bytes of a batch.
const EVENTS: usize = 256;
const BYTES: usize = 1 << 20;

pub(super) async fn run(mut egress: Egress, backend: Arc<dyn Fanout>, shared: Arc<Shared>) {
    let mut probe = tokio::time::interval(shared.options.probe);
    let mut sweep = tokio::time::interval_at(Instant::now() + shared.options.sweep, shared.options.sweep);
    probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let messages = tokio::select! {
            biased;
            () = shared.stop.cancelled() => break,
            _ = sweep.tick() => {
                if let Err(error) = shared.with_timeout(backend.sweep()).await {
                    tracing::debug!(backend = shared.name, %error, "old fan-out messages could not be removed");
                }
                continue;
            }
            _ = probe.tick() => {
                deliver(std::slice::from_ref(&shared.probe), &*backend, &shared).await;
                continue;
            }
            messages = egress.next(EVENTS) => match messages {
                Some(messages) => messages,
                None => return,
            },
        };
        send_events(&messages, &*backend, &shared).await;
    }
    // The remaining events are sent without waiting for an unavailable backend.
    loop {
        let messages = egress.ready(EVENTS);
        if messages.is_empty() {
            return;
        }
        send_events(&messages, &*backend, &shared).await;
    }
}

async fn send_events(messages: &[Bytes], backend: &dyn Fanout, shared: &Shared) {
    for part in parts(messages) {
        match deliver(part, backend, shared).await {
            Some(refused) => {
                let refused = refused.min(part.len());
                count(&shared.counters.sent, (part.len() - refused) as u64);
                count(&shared.counters.refused, refused as u64);
                if refused > 0 {
                    let backend = shared.name;
                    tracing::warn!(
                        backend,
                        refused,
                        "events of a kind or size that fan-out cannot send stay on this replica"
                    );
                }
            }
            None => count(&shared.counters.refused, part.len() as u64),
        }
    }
}

/// Attempts to send a batch after the stop: a connection that ended unnoticed must not cost the last events.
const LAST_ATTEMPTS: u32 = 2;

/// Sends until it succeeds, or at most [`LAST_ATTEMPTS`] times after the stop. `None` if it failed.
async fn deliver(messages: &[Bytes], backend: &dyn Fanout, shared: &Shared) -> Option<usize> {
    for failures in 1.. {
        match shared.with_timeout(backend.send(messages)).await {
            Ok(refused) => {
                shared.works(&shared.sends);
                return Some(refused);
            }
            Err(error) => shared.fails(&shared.sends, &error),
        }
        let pause = tokio::time::sleep(shared.pause(failures));
        if shared.stop.run_until_cancelled(pause).await.is_none() && failures >= LAST_ATTEMPTS {
            return None;
        }
    }
    None
}

/// Cuts a batch that is too large for one round trip. A message that is too large is sent separately.
fn parts(mut messages: &[Bytes]) -> impl Iterator<Item = &[Bytes]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |message: &&Bytes| {
            bytes += message.len();
            bytes <= BYTES
        };
        let length = messages.iter().take_while(fits).count().max(1).min(messages.len());
        let (part, rest) = messages.split_at(length);
        messages = rest;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_by_its_bytes_and_nothing_is_lost() {
        let message = |length: usize| Bytes::from(vec![b'x'; length]);
        for (lengths, expected) in [
            (vec![], vec![]),
            (vec![1, 2, 3], vec![3]),
            (vec![BYTES, 1], vec![1, 1]),
            (vec![2 * BYTES, 2 * BYTES, 1], vec![1, 1, 1]),
            (vec![BYTES / 2, BYTES / 2, 1, 1], vec![2, 2]),
        ] {
            let messages: Vec<_> = lengths.into_iter().map(message).collect();
            let found: Vec<_> = parts(&messages).map(<[Bytes]>::len).collect();
            assert_eq!(found, expected);
        }
    }
}
