use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use super::lanes::{Job, Lane, Lanes};
use super::registry::Listed;
use super::subscriber::{Memory, Outgoing};
use crate::bus::queue::{Entry, Tap};

/// Events taken off the bus at a time.
const BATCH: usize = 1_024;

/// Events that a stream gets before its connection has a turn. Well under a stream's buffer, so that a client which reads
/// loses nothing to a burst from one transaction.
const TOGETHER: usize = 8;

/// Moves events from the bus to the streams until the broker stops or the bus is dropped; then delivers the remaining
/// events and ends every stream.
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
            // They were never offered to a stream here.
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

impl Broker {
    /// Queues a batch of events for the streams of their tables.
    fn queue(self: &Arc<Self>, batch: &mut Vec<Entry>, lanes: &mut Lanes) {
        // Streams of several tables get the events of all in the order in which they were published.
        let several = self.registry.lock().several();
        for (name, listed) in several {
            let carried = batch.iter().filter(|entry| listed.tables.contains(entry.event.table())).cloned();
            self.queue_for(&listed, &name, carried, lanes);
        }
        while let Some(first) = batch.first() {
            let table = first.event.shared_table().clone();
            let of_table = batch.extract_if(.., |entry| entry.event.table() == &*table);
            let Some(listed) = self.registry.lock().of(&table) else {
                of_table.for_each(drop);
                continue;
            };
            self.queue_for(&listed, &table, of_table, lanes);
        }
    }

    fn queue_for(
        self: &Arc<Self>,
        listed: &Listed,
        table: &Arc<str>,
        entries: impl Iterator<Item = Entry>,
        lanes: &mut Lanes,
    ) {
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            let (events, holds): (Vec<_>, Vec<_>) = entries
                .by_ref()
                .take(TOGETHER)
                .map(|Entry { event, hold }| {
                    let memory = Memory::Live(self.options.budget.clone());
                    (Outgoing::new(event, self.options.json_case, memory), hold)
                })
                .unzip();
            let events: Arc<[Outgoing]> = events.into();
            let everything = (!listed.open.is_empty()).then(|| (Lane::Table(table.clone()), &listed.open));
            let filtered = listed.filtered.iter().map(|(caller, streams)| (Lane::Caller(caller.clone()), streams));
            for (lane, streams) in everything.into_iter().chain(filtered) {
                for dropped in lanes.push(lane, Job::new(streams.clone(), events.clone(), &holds)) {
                    match self.options.log {
                        Some(_) => dropped.members.iter().for_each(|member| self.fall_behind(member)),
                        None => self.count_dropped((dropped.members.len() * dropped.events.len()) as u64),
                    }
                }
            }
        }
    }
}
