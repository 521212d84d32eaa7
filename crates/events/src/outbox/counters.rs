use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// The outbox counters of a process since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows staged and committed.
    pub staged: u64,
    /// Writes that were refused because the outbox is full.
    pub refused: u64,
    /// The results of deliveries, by consumer.
    pub consumers: BTreeMap<String, ConsumerCounts>,
}

/// The results of a consumer's deliveries in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConsumerCounts {
    /// Handlers that returned without an error, and were settled.
    pub delivered: u64,
    /// Handlers that failed, including last attempts.
    pub failed: u64,
    /// Deliveries that failed for the last time.
    pub dead: u64,
    /// Deliveries that another relay took over before they were settled.
    pub taken_over: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    staged: AtomicU64,
    refused: AtomicU64,
    consumers: RwLock<BTreeMap<String, Arc<ConsumerCounters>>>,
}

#[derive(Default)]
pub(super) struct ConsumerCounters {
    pub(super) delivered: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) dead: AtomicU64,
    pub(super) taken_over: AtomicU64,
}

impl Counters {
    pub(super) fn staged(&self) {
        self.staged.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn consumer(&self, name: &str) -> Arc<ConsumerCounters> {
        self.consumers.write().entry(name.to_owned()).or_default().clone()
    }

    pub(super) fn read(&self) -> Counts {
        let consumers = self.consumers.read();
        let read = |(name, counters): (&String, &Arc<ConsumerCounters>)| (name.clone(), counters.read());
        let (staged, refused) = (self.staged.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        Counts { staged, refused, consumers: consumers.iter().map(read).collect() }
    }
}

impl ConsumerCounters {
    /// Counts deliveries that were claimed.
    pub(super) fn delivered(&self, count: usize) {
        add(&self.delivered, count);
    }

    /// Counts deliveries that failed, `dead` of them for the last time.
    pub(super) fn failed(&self, count: usize, dead: usize) {
        add(&self.failed, count);
        add(&self.dead, dead);
    }

    fn read(&self) -> ConsumerCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConsumerCounts {
            delivered: load(&self.delivered),
            failed: load(&self.failed),
            dead: load(&self.dead),
            taken_over: load(&self.taken_over),
        }
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
}
