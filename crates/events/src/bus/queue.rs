use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::receipt::Hold;
use crate::{EntityEvent, EventKind};

/// The events that a subscriber receives.
#[derive(Debug, Clone, Default)]
pub struct Interest {
    table: Option<Arc<str>>,
    kind: Option<EventKind>,
    local: bool,
}

impl Interest {
    /// Every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only events of one table.
    pub fn table(mut self, table: impl Into<Arc<str>>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Only events of one kind.
    pub fn kind(mut self, kind: EventKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only writes of this process, not those of other replicas.
    pub fn local(mut self) -> Self {
        self.local = true;
        self
    }

    fn covers(&self, event: &EntityEvent) -> bool {
        self.table.as_deref().is_none_or(|table| table == event.table())
            && self.kind.is_none_or(|kind| kind == event.kind())
            && !(self.local && event.is_remote())
    }
}

/// The queue limit of one in-process subscriber. Beyond either number the oldest queued event is dropped and counted.
/// The log has one line for each period of drops.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// Events.
    pub events: usize,
    /// Bytes of records. One record of any size is always accepted.
    pub bytes: usize,
}

impl Default for Bound {
    /// 65,536 events and 64 MiB.
    fn default() -> Self {
        Self { events: 65_536, bytes: 64 << 20 }
    }
}

/// Bytes of records that a reader takes at a time, in addition to one record of any size.
const TAKEN_BYTES: usize = 1 << 20;

/// A queued event, with the hold of its writer.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) event: Arc<EntityEvent>,
    pub(crate) hold: Option<Hold>,
}

/// The sending half of a subscriber's queue, kept by the bus.
pub(crate) struct Queue {
    name: &'static str,
    interest: Interest,
    bound: Bound,
    carries_holds: bool,
    asleep: AtomicBool,
    dropped: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    bytes: usize,
    closed: bool,
    overrun: bool,
    /// The reader is to notice that events were lost.
    lost: bool,
    waker: Option<Waker>,
}

impl Queue {
    /// A queue, with the tap at its end. `name` is for the log. With `carries_holds`, the reader of the tap decides how
    /// long writers wait.
    pub(crate) fn new(name: &'static str, interest: Interest, bound: Bound, carries_holds: bool) -> (Arc<Self>, Tap) {
        let queue = Arc::new(Self {
            name,
            interest,
            bound,
            carries_holds,
            asleep: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            state: Mutex::default(),
        });
        (queue.clone(), Tap { queue })
    }

    /// Queues `event` if it is wanted. Never waits for the reader.
    pub(crate) fn offer(&self, event: &Arc<EntityEvent>, hold: Option<&Hold>) {
        if self.asleep.load(Ordering::Acquire) || !self.interest.covers(event) {
            return;
        }
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let bytes = event.record().len();
        let mut dropped = 0;
        while !state.entries.is_empty()
            && (state.entries.len() >= self.bound.events || state.bytes + bytes > self.bound.bytes)
        {
            if let Some(oldest) = state.entries.pop_front() {
                state.bytes -= oldest.event.record().len();
                dropped += 1;
            }
        }
        state.bytes += bytes;
        state.entries.push_back(Entry { event: event.clone(), hold: hold.filter(|_| self.carries_holds).cloned() });
        let began = dropped > 0 && !state.overrun;
        state.overrun |= dropped > 0;
        let waker = state.waker.take();
        drop(state);
        if dropped > 0 {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        if began {
            tracing::warn!(
                subscriber = self.name,
                "an in-process subscriber is too slow; its oldest events are dropped"
            );
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Counts events that were lost before they came here, and wakes the reader.
    pub(crate) fn lose(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.lost = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Closes the queue: queued events can still be taken.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// While asleep, a queue accepts nothing, at the cost of one load.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Release);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The reading half. Dropping it closes the queue.
pub(crate) struct Tap {
    queue: Arc<Queue>,
}

impl Tap {
    /// Moves at most `max` entries, and few if they are large, to the end of `batch`, waiting for the first or for the news
    /// that some were lost. `false` when the queue was closed and is empty. Safe to cancel.
    pub(crate) async fn fill(&mut self, batch: &mut Vec<Entry>, max: usize) -> bool {
        poll_fn(|context| {
            let mut state = self.queue.state.lock();
            if state.take(batch, max) {
                return Poll::Ready(true);
            }
            if state.closed {
                return Poll::Ready(false);
            }
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                state.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Like [`Tap::fill`], without waiting.
    pub(crate) fn fill_now(&mut self, batch: &mut Vec<Entry>, max: usize) -> bool {
        self.queue.state.lock().take(batch, max)
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl State {
    fn take(&mut self, batch: &mut Vec<Entry>, max: usize) -> bool {
        let (mut count, mut bytes) = (0, 0);
        while count < max
            && bytes < TAKEN_BYTES
            && let Some(entry) = self.entries.pop_front()
        {
            count += 1;
            bytes += entry.event.record().len();
            batch.push(entry);
        }
        self.bytes -= bytes;
        if self.entries.is_empty() {
            self.overrun = false;
        }
        std::mem::take(&mut self.lost) || count > 0
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.closed = true;
        let entries = std::mem::take(&mut state.entries);
        drop(state);
        drop(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(record: &str) -> Arc<EntityEvent> {
        Arc::new(EntityEvent::new(EventKind::Created, "posts", "posts", record.to_owned()))
    }

    fn records(tap: &mut Tap) -> Vec<String> {
        let mut batch = Vec::new();
        tap.fill_now(&mut batch, usize::MAX);
        batch.iter().map(|entry| String::from_utf8(entry.event.record().to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_full_queue_drops_its_oldest_by_count_and_by_bytes() {
        for bound in [Bound { events: 2, bytes: 1000 }, Bound { events: 100, bytes: 15 }] {
            let (queue, mut tap) = Queue::new("test", Interest::all(), bound, false);
            for n in 1..=4 {
                queue.offer(&event(&format!(r#"{{"n":{n}}}"#)), None);
            }
            assert_eq!(records(&mut tap), [r#"{"n":3}"#, r#"{"n":4}"#]);
            assert_eq!(queue.dropped(), 2);
        }
    }

    #[test]
    fn a_record_over_the_limit_is_queued_without_others() {
        let bound = Bound { events: 10, bytes: 10 };
        let (queue, mut tap) = Queue::new("test", Interest::all(), bound, false);
        queue.offer(&event(r#"{"n":1}"#), None);
        let huge = format!(r#"{{"n":"{}"}}"#, "x".repeat(100));
        queue.offer(&event(&huge), None);
        assert_eq!(records(&mut tap), [huge]);
        queue.offer(&event(r#"{"n":3}"#), None);
        assert_eq!(records(&mut tap), [r#"{"n":3}"#]);
    }

    #[tokio::test]
    async fn large_events_are_taken_a_few_at_a_time_and_a_loss_is_noticed_without_one() {
        let (queue, mut tap) = Queue::new("test", Interest::all(), Bound::default(), false);
        let large = event(&format!(r#"{{"n":"{}"}}"#, "x".repeat(TAKEN_BYTES / 2)));
        for _ in 0..5 {
            queue.offer(&large, None);
        }
        let mut batch = Vec::new();
        for taken in [2, 4, 5] {
            assert!(tap.fill(&mut batch, 100).await);
            assert_eq!(batch.len(), taken);
        }
        assert_eq!(queue.state.lock().bytes, 0);
        queue.lose();
        assert!(tap.fill(&mut batch, 100).await);
        assert_eq!((batch.len(), queue.dropped()), (5, 1));
        assert!(!tap.fill_now(&mut batch, 100), "once");
    }

    #[test]
    fn an_interest_is_a_conjunction() {
        let remote = EntityEvent::new(EventKind::Created, "posts", "posts", "{}").into_remote();
        for (interest, covers) in [
            (Interest::all(), true),
            (Interest::all().table("posts").kind(EventKind::Created), true),
            (Interest::all().table("notes").kind(EventKind::Created), false),
            (Interest::all().table("posts").kind(EventKind::Deleted), false),
            (Interest::all().local(), false),
        ] {
            assert_eq!(interest.covers(&remote), covers, "{interest:?}");
        }
    }
}
