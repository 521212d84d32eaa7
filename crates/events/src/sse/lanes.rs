//! Fair scheduling of the distribution of events: each caller and each table gets its share of time.
//!
//! The streams of a table without a condition are in the table's lane. A stream with a condition is in its caller's
//! lane, because the caller determines the cost of the test. Lanes take turns of at most [`TURN`] each: a caller whose
//! conditions take a minute delays only their own events.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::broker::Broker;
use super::frame::Gap;
use super::ring::End;
use super::subscriber::{Offered, Outgoing, Subscriber};
use crate::bus::receipt::Hold;

/// How long a turn is. One test of one record is not interrupted.
const TURN: Duration = Duration::from_millis(1);
/// Events that may wait in a lane. Past either number its oldest are dropped.
const MAX_EVENTS: usize = 16_384;
/// Bytes of records that may wait in a lane.
const MAX_BYTES: usize = 16 << 20;

/// The owner of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// The streams of a table that have no condition.
    Table(Arc<str>),
    /// A caller's streams that have one.
    Caller(Arc<str>),
}

/// Events for streams.
pub(super) struct Job {
    pub(super) members: Arc<[Arc<Subscriber>]>,
    pub(super) events: Arc<[Outgoing]>,
    /// The holds of the events' writers, by the events' positions. Empty if no stream blocks.
    pub(super) holds: Vec<Option<Hold>>,
    next: (usize, usize),
}

impl Job {
    pub(super) fn new(members: Arc<[Arc<Subscriber>]>, events: Arc<[Outgoing]>, holds: &[Option<Hold>]) -> Self {
        let blocks = members.iter().any(|member| member.blocks);
        let holds = if blocks { holds.to_vec() } else { Vec::new() };
        Self { members, events, holds, next: (0, 0) }
    }

    fn bytes(&self) -> usize {
        self.events.iter().map(|outgoing| outgoing.event.record().len()).sum()
    }
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    events: usize,
    bytes: usize,
}

/// All lanes in which something waits.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: HashMap<Lane, Waiting>,
    turns: VecDeque<Lane>,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Queues a job and returns those that were dropped for it.
    pub(super) fn push(&mut self, lane: Lane, job: Job) -> Vec<Job> {
        let waiting = self.lanes.entry(lane.clone()).or_insert_with(|| {
            self.turns.push_back(lane);
            Waiting::default()
        });
        let (events, bytes) = (job.events.len(), job.bytes());
        let mut dropped = Vec::new();
        while waiting.events + events > MAX_EVENTS || waiting.bytes + bytes > MAX_BYTES {
            let Some(oldest) = waiting.jobs.pop_front() else { break };
            waiting.forget(&oldest);
            dropped.push(oldest);
        }
        waiting.events += events;
        waiting.bytes += bytes;
        waiting.jobs.push_back(job);
        dropped
    }

    /// Gives the next lane its turn.
    pub(super) fn turn(&mut self, broker: &Arc<Broker>) {
        let Some(lane) = self.turns.pop_front() else { return };
        let Some(waiting) = self.lanes.get_mut(&lane) else { return };
        // A table's streams take a whole job at once. A test of one event may already be long.
        let step = match lane {
            Lane::Table(_) => usize::MAX,
            Lane::Caller(_) => 1,
        };
        let began = Instant::now();
        let done = waiting.jobs.front_mut().is_none_or(|job| {
            loop {
                if !advance(job, step, broker) {
                    break true;
                }
                if began.elapsed() >= TURN {
                    break false;
                }
            }
        });
        if done && let Some(job) = waiting.jobs.pop_front() {
            waiting.forget(&job);
        }
        if waiting.jobs.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
    }
}

impl Waiting {
    fn forget(&mut self, job: &Job) {
        self.events -= job.events.len();
        self.bytes -= job.bytes();
    }
}

/// Offers at most `step` events of a job to the stream whose turn it is. `false` when the job is done.
fn advance(job: &mut Job, step: usize, broker: &Arc<Broker>) -> bool {
    let (member, event) = job.next;
    let Some(subscriber) = job.members.get(member) else { return false };
    let end = event.saturating_add(step).min(job.events.len());
    let holds = job.holds.get(event..end).unwrap_or_default();
    match subscriber.offer(&job.events[event..end], holds) {
        Ok(Offered::Queued { dropped }) => broker.count_dropped(dropped),
        Ok(Offered::FellBehind) => broker.catch_up(subscriber, Gap::Overflow),
        Err(_bad_filter) => {
            tracing::error!(table = &*subscriber.table, "a stream's filter panicked; the stream is ended");
            broker.end(subscriber, End::Cut);
        }
    }
    job.next = if end < job.events.len() { (member, end) } else { (member + 1, 0) };
    true
}
