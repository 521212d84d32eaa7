use std::sync::Arc;

use bytes::Bytes;

use super::Bus;
use super::origins::Turn;
use super::queue::{Bound, Entry, Interest, Queue, Tap};
use crate::envelope::{Envelope, Malformed};

/// The result of [`Bus::ingest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingested {
    /// Another replica's event: published here, flagged as remote.
    Published {
        /// How many of that replica's earlier events were lost.
        missed: u64,
    },
    /// A duplicate of another replica's event, which was ignored. A sender that does not know whether a message arrived
    /// sends it again.
    Again,
    /// This bus's own event, returned by the channel, which was ignored.
    Own,
    /// An event of another log, or of this one before it lost its last commits, which was ignored.
    OtherLog,
}

/// The events that this process wrote, encoded for the other replicas.
///
/// A fan-out backend drains it and sends each message to all replicas, which pass it to [`Bus::ingest`]. Events from
/// other replicas are not among them, so that no event circulates.
pub struct Egress {
    tap: Tap,
    origin: String,
    number: u64,
    batch: Vec<Entry>,
}

impl Egress {
    /// The next messages, at least one and at most `max`, in commit order; `None` when the bus is dropped. Cancel safe:
    /// no message is taken before it is returned.
    pub async fn next(&mut self, max: usize) -> Option<Vec<Bytes>> {
        while self.batch.is_empty() {
            if !self.tap.fill(&mut self.batch, max.max(1)).await {
                return None;
            }
        }
        Some(self.encode())
    }

    /// The messages that are available without waiting, at most `max`.
    pub fn ready(&mut self, max: usize) -> Vec<Bytes> {
        self.tap.fill_now(&mut self.batch, max);
        self.encode()
    }

    fn encode(&mut self) -> Vec<Bytes> {
        let Self { batch, number, origin, .. } = self;
        let message = |entry: Entry| {
            *number += 1;
            Envelope::encode(origin, *number, &entry.event)
        };
        batch.drain(..).map(message).collect()
    }

    /// How many events were dropped because the backend was too slow.
    pub fn dropped(&self) -> u64 {
        self.tap.queue().dropped()
    }

    /// The same count, as a handle that can be read elsewhere.
    pub(crate) fn drops(&self) -> Drops {
        Drops(self.tap.queue().clone())
    }
}

/// How many events an [`Egress`] lost.
#[derive(Clone)]
pub(crate) struct Drops(Arc<Queue>);

impl Drops {
    pub(crate) fn count(&self) -> u64 {
        self.0.dropped()
    }
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Bus {
    /// The outgoing events for a fan-out backend: everything written in this process from now on, within `bound`. Use
    /// only one for a bus: the messages of a second one would count as duplicates.
    pub fn egress(&self, bound: Bound) -> Egress {
        Egress {
            tap: self.tap("fan-out", Interest::all().local(), bound, false),
            origin: self.0.origin.clone(),
            number: 0,
            batch: Vec::new(),
        }
    }

    /// The incoming messages of a fan-out backend: publishes a message of a replica's [`Egress`].
    ///
    /// The transport is trusted: any client that can write to it can publish any event. A malformed message is an error
    /// and changes nothing.
    pub fn ingest(&self, message: &[u8]) -> Result<Ingested, Malformed> {
        let mut envelope = Envelope::decode(message)?;
        if envelope.origin == self.0.origin {
            return Ok(Ingested::Own);
        }
        let turn = self.0.origins.lock().note(&envelope.origin, envelope.number);
        match turn {
            Turn::Again => Ok(Ingested::Again),
            Turn::New { missed } => {
                if let (Some(name), Some(log)) = (&envelope.log, self.0.log.get()) {
                    let generation = log.generation();
                    if *generation.name != **name {
                        return Ok(Ingested::OtherLog);
                    }
                    envelope.event = envelope.event.of_generation(generation);
                }
                self.publish_remote(envelope.event);
                Ok(Ingested::Published { missed })
            }
        }
    }
}
