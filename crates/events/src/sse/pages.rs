//! Pages of the log, read once for all streams that are behind.
//!
//! When many streams fall behind together, or reconnect together after a restart, they read the same events, each from
//! its own position. A page is cached for a second, with the frames that were encoded from it. A stream that began to
//! catch up before the page was read may use all of it. Other streams use it up to the position that was settled when
//! it was read, because further events may have appeared beyond it.
//!
//! A stream that has read past an open position remembers it: until the stream starts a new round, no page may raise
//! its settled position, or it would skip the open position.
//!
//! The limit of bytes counts the cached pages. A page with frames that a slow client has not read yet stays in memory
//! longer. The memory of a page and its frames is leased until all of them are sent, by the caller whose stream read it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gatewright_base::JsonCase;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::subscriber::{Memory, Outgoing};
use super::tables::Tables;
use crate::EventLog;
use crate::log::page::Unread;
use crate::log::witness::Witness;

/// How long a page is kept.
const KEPT: Duration = Duration::from_secs(1);
/// Bytes of all pages that are kept.
const MAX_BYTES: usize = 16 << 20;
/// Pages that are examined for one that continues from a position.
const LOOKED_AT: usize = 8;

#[derive(Default)]
pub(super) struct Pages {
    moments: AtomicU64,
    kept: Mutex<Kept>,
}

/// A logical time at which something began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

#[derive(Default)]
struct Kept {
    /// By their tables, and the position behind which they begin.
    tables: HashMap<Arc<str>, BTreeMap<i64, Arc<Page>>>,
    /// The oldest first. A page that was read again is listed twice.
    order: VecDeque<(Arc<str>, i64)>,
    bytes: usize,
}

struct Page {
    read: Moment,
    at: Instant,
    /// The generation of the log in which it was read.
    generation: u64,
    /// The settled position before it was read: the page contains all events from its beginning up to here.
    settled: i64,
    events: Vec<Outgoing>,
    next: i64,
    more: bool,
    swept_to: i64,
    last: i64,
    bytes: usize,
}

/// The part of a page that one stream uses.
pub(super) struct Part {
    page: Arc<Page>,
    begin: usize,
    end: usize,
    /// The last position that was read.
    pub(super) next: i64,
    /// There may be more after it.
    pub(super) more: bool,
}

/// How a stream catches up: when it began, and the position up to which all that it has read is settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    began: Moment,
    settled: i64,
}

impl Reading {
    /// Takes account of a part that was read.
    pub(super) fn note(&mut self, part: &Part) {
        if part.next > part.page.settled {
            self.settled = self.settled.min(part.page.settled);
        }
    }
}

impl Part {
    pub(super) fn events(&self) -> &[Outgoing] {
        &self.page.events[self.begin..self.end]
    }

    /// Whether it was read in this generation of the log.
    pub(super) fn is_of(&self, generation: u64) -> bool {
        self.page.generation == generation
    }

    /// Whether events behind `position` were removed from the log, or it is not of this log.
    pub(super) fn is_lost(&self, position: i64) -> bool {
        self.page.swept_to > position || position > self.page.last
    }
}

impl Page {
    /// The events after `from`, for a stream with this reading. `None` if there are none, unless the page shows that the log ends
    /// there.
    fn behind(self: &Arc<Self>, from: i64, reading: Reading) -> Option<Part> {
        if self.settled > reading.settled {
            return None;
        }
        let is_whole = self.read > reading.began;
        let (next, more) = if is_whole { (self.next, self.more) } else { (self.next.min(self.settled), true) };
        if next < from || (next == from && more) {
            return None;
        }
        let until = |position: i64| self.events.partition_point(|event| event.event.position() <= Some(position));
        let end = if is_whole { self.events.len() } else { until(next) };
        Some(Part { page: self.clone(), begin: until(from), end, next, more })
    }
}

impl Pages {
    /// Begins to catch up. Pages that are read after this contain every event that was published before.
    pub(super) fn begin(&self) -> Reading {
        Reading { began: self.moment(), settled: i64::MAX }
    }

    fn moment(&self) -> Moment {
        Moment(self.moments.fetch_add(1, Ordering::SeqCst))
    }

    /// The events of `tables` behind `from`, for a stream of `holder`.
    pub(super) async fn get(
        &self,
        (log, case): (&EventLog, JsonCase),
        (tables, holder): (&Tables, &str),
        from: i64,
        reading: Reading,
    ) -> Result<Part, Unread> {
        let (now, generation) = log.now();
        if let Some(part) =
            self.kept.lock().find(tables.key(), from, reading).filter(|part| part.is_of(generation.number))
        {
            return Ok(part);
        }
        let read = self.moment();
        let all_settled = now.position;
        let settled = all_settled.min(reading.settled);
        let page = log.page(tables.names(), from, holder).await?;
        let (bytes, lease) = (page.lease.bytes(), Arc::new(page.lease));
        let outgoing = page.events.into_iter().map(|mut event| {
            // All that was committed up to `settled` is before this event in the log.
            let witness = Witness::of(&event);
            event.set_passed(event.position().unwrap_or_default().min(settled), witness, &generation);
            Outgoing::new(Arc::new(event), case, Memory::Page(lease.clone()))
        });
        let page = Arc::new(Page {
            read,
            at: Instant::now(),
            generation: generation.number,
            settled,
            events: outgoing.collect(),
            next: page.next,
            more: page.more,
            swept_to: page.swept_to,
            last: page.last,
            bytes,
        });
        // For others it would be less than they can have.
        if settled == all_settled {
            self.kept.lock().keep(tables.key().clone(), from, page.clone());
        }
        let (end, next, more) = (page.events.len(), page.next, page.more);
        Ok(Part { page, begin: 0, end, next, more })
    }

    /// Removes all pages, whose memory somebody needs.
    pub(super) fn clear(&self) {
        *self.kept.lock() = Kept::default();
    }

    /// Removes old pages.
    pub(super) fn sweep(&self) {
        self.kept.lock().sweep();
    }
}

impl Kept {
    fn find(&self, table: &str, from: i64, reading: Reading) -> Option<Part> {
        let before = self.tables.get(table)?.range(..=from).rev().take(LOOKED_AT);
        let mut fresh = before.map(|(_, page)| page).filter(|page| page.at.elapsed() < KEPT);
        fresh.find_map(|page| page.behind(from, reading))
    }

    fn keep(&mut self, table: Arc<str>, from: i64, page: Arc<Page>) {
        self.sweep();
        self.bytes += page.bytes;
        self.order.push_back((table.clone(), from));
        let before = self.tables.entry(table).or_default().insert(from, page);
        self.bytes -= before.map_or(0, |before| before.bytes);
        while self.bytes > MAX_BYTES {
            let Some((table, from)) = self.order.pop_front() else { break };
            self.drop_page(&table, from);
        }
    }

    fn sweep(&mut self) {
        while let Some((table, from)) = self.order.front().cloned() {
            let page = self.tables.get(&table).and_then(|pages| pages.get(&from));
            if page.is_some_and(|page| page.at.elapsed() < KEPT) {
                break;
            }
            self.order.pop_front();
            self.drop_page(&table, from);
        }
    }

    fn drop_page(&mut self, table: &str, from: i64) {
        let Some(pages) = self.tables.get_mut(table) else { return };
        self.bytes -= pages.remove(&from).map_or(0, |page| page.bytes);
        if pages.is_empty() {
            self.tables.remove(table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::page::BESIDE;
    use crate::{EntityEvent, EventKind};

    /// A page behind `start` with events at these positions.
    fn page(read: u64, settled: i64, positions: &[i64], more: bool) -> Arc<Page> {
        let events = positions.iter().map(|position| {
            let event = EntityEvent::new(EventKind::Created, "posts", "posts", r#"{"id":"1"}"#);
            let event = event.with_place(format!("e{position}"), *position);
            let lease = Arc::new(gatewright_base::Budget::unlimited().lease(None));
            Outgoing::new(Arc::new(event), JsonCase::Camel, Memory::Page(lease))
        });
        let events: Vec<_> = events.collect();
        let (next, at) = (*positions.last().unwrap(), Instant::now());
        let bytes = events.len() * BESIDE;
        Arc::new(Page {
            read: Moment(read),
            at,
            generation: 1,
            settled,
            events,
            next,
            more,
            swept_to: 0,
            last: next,
            bytes,
        })
    }

    fn taken(part: Option<Part>) -> Option<(Vec<i64>, i64, bool)> {
        part.map(|part| {
            (part.events().iter().filter_map(|event| event.event.position()).collect(), part.next, part.more)
        })
    }

    #[tokio::test]
    async fn a_page_is_used_completely_by_earlier_readers_and_up_to_its_settled_position_by_others() {
        // Position 4 was still open when this was read: 5 is there, and 4 may come.
        let tail = page(10, 3, &[1, 2, 3, 5], false);
        let [before, after] = [9, 11].map(|began| Reading { began: Moment(began), settled: i64::MAX });
        assert_eq!(taken(tail.behind(0, before)), Some((vec![1, 2, 3, 5], 5, false)));
        assert_eq!(taken(tail.behind(2, before)), Some((vec![3, 5], 5, false)));
        assert_eq!(taken(tail.behind(5, before)), Some((vec![], 5, false)), "it tells that there is no more");
        assert_eq!(taken(tail.behind(6, before)), None);
        assert_eq!(taken(tail.behind(0, after)), Some((vec![1, 2, 3], 3, true)));
        assert_eq!(taken(tail.behind(2, after)), Some((vec![3], 3, true)));
        assert_eq!(taken(tail.behind(3, after)), None, "what is behind has to be read");
        // With positions of other tables in between, and a page that is not the last.
        let full = page(10, 50, &[20, 30, 40], true);
        assert_eq!(taken(full.behind(10, before)), Some((vec![20, 30, 40], 40, true)));
        assert_eq!(taken(full.behind(25, after)), Some((vec![30, 40], 40, true)));
        assert_eq!(taken(full.behind(40, before)), None);
        // A stream that has read past 4 uses no page that settles 5. A page that does not settle it can be used.
        let mut past = before;
        past.note(&tail.behind(0, before).unwrap());
        assert_eq!(taken(full.behind(10, past)), None);
        let other = page(12, 3, &[6, 7], true);
        assert_eq!(taken(other.behind(5, past)), Some((vec![6, 7], 7, true)));
        let mut settled = before;
        settled.note(&full.behind(10, before).unwrap());
        assert_eq!(settled.settled, i64::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_found_for_a_second_and_bounded_in_bytes() {
        let (mut kept, posts) = (Kept::default(), Arc::<str>::from("posts"));
        let began = Reading { began: Moment(0), settled: i64::MAX };
        kept.keep(posts.clone(), 0, page(1, 9, &[1, 2, 3], true));
        kept.keep(posts.clone(), 3, page(2, 9, &[4, 5, 6], true));
        assert_eq!(taken(kept.find("posts", 1, began)), Some((vec![2, 3], 3, true)));
        assert_eq!(taken(kept.find("posts", 3, began)), Some((vec![4, 5, 6], 6, true)));
        assert_eq!(taken(kept.find("posts", 6, began)), None);
        assert_eq!(taken(kept.find("notes", 0, began)), None);
        // Read again from the same place: only one of the two counts.
        kept.keep(posts.clone(), 3, page(3, 9, &[4, 5, 6, 7], false));
        assert_eq!(taken(kept.find("posts", 3, began)), Some((vec![4, 5, 6, 7], 7, false)));
        assert_eq!(kept.bytes, 7 * BESIDE);
        tokio::time::advance(KEPT).await;
        assert_eq!(taken(kept.find("posts", 3, began)), None);
        kept.sweep();
        assert_eq!((kept.bytes, kept.tables.len(), kept.order.len()), (0, 0, 0));

        let large: Vec<i64> = (1..=i64::try_from(MAX_BYTES / BESIDE / 3).unwrap()).collect();
        for start in 0..10 {
            kept.keep(posts.clone(), start, page(4, 9, &large, true));
            assert!(kept.bytes <= MAX_BYTES);
        }
        assert!(taken(kept.find("posts", 9, began)).is_some());
        assert_eq!(kept.tables["posts"].len(), 3);
    }
}
