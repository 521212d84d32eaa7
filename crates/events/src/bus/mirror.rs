use bytes::Bytes;

use super::Bus;
use super::queue::{Bound, Entry, Interest, Tap};
use crate::envelope::{Envelope, Malformed};

/// What [`Bus::ingest`] did with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingested {
    /// Another replica's event: published here, flagged as remote.
    Published,
    /// This bus's own event, come back over a channel that speaks to its sender too: left out.
    Own,
}

/// The events that this process wrote, encoded for the other replicas.
///
/// A fan-out backend drains it and sends each message to all replicas, which give it to [`Bus::ingest`]. What came from
/// another replica is not among them, so that no event goes round in circles.
pub struct Egress {
    tap: Tap,
    origin: String,
    batch: Vec<Entry>,
}

impl Egress {
    /// The next messages, at least one and at most `max`, in commit order; `None` once the bus is gone. Safe to cancel:
    /// nothing is taken before it is returned.
    pub async fn next(&mut self, max: usize) -> Option<Vec<Bytes>> {
        if !self.tap.fill(&mut self.batch, max.max(1)).await {
            return None;
        }
        let messages = self.batch.drain(..).map(|entry| Envelope::encode(&self.origin, &entry.event));
        Some(messages.collect())
    }

    /// How many events were dropped because the backend was too slow.
    pub fn dropped(&self) -> u64 {
        self.tap.queue().dropped()
    }
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Bus {
    /// The way out for a fan-out backend: everything written here from now on, within `bound`.
    pub fn egress(&self, bound: Bound) -> Egress {
        Egress {
            tap: self.tap("fan-out", Interest::all().local(), bound, false),
            origin: self.0.origin.clone(),
            batch: Vec::new(),
        }
    }

    /// The way in for a fan-out backend: publishes a message that some replica's [`Egress`] made.
    ///
    /// The transport is trusted: whoever can write to it can publish any event. A message that is not one of ours is
    /// an error that changes nothing.
    pub fn ingest(&self, message: &[u8]) -> Result<Ingested, Malformed> {
        let envelope = Envelope::decode(message)?;
        if envelope.origin == self.0.origin {
            return Ok(Ingested::Own);
        }
        self.publish_remote(envelope.event);
        Ok(Ingested::Published)
    }
}
