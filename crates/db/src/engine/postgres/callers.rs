//! Which callers read over the shared connections, how much each has in progress there, and who reads apart for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::Share;

/// The most shared connections for reads of records.
pub(super) const CONNECTIONS: usize = 8;
/// Statements of one caller that are in progress on each connection, if another connection is left to others. Fewer would make the reads
/// of a caller with many clients slower.
const IN_PROGRESS: usize = 32;
/// The same if there is only one connection, and for a caller whose reads were slow or large in the last [`WATCHED`].
const FEW_IN_PROGRESS: usize = 8;
const WATCHED: Duration = Duration::from_mins(1);
/// A caller reads apart for this many times the time by which a read delays those behind it on a shared connection.
const TIMES_APART: u32 = 10;
/// The longest time that a caller reads apart after their last slow or large read.
const LONGEST_APART: Duration = Duration::from_secs(10);
/// Number of callers at which those without effect are removed.
const KEPT: usize = 1_024;

pub(super) struct Callers {
    known: Mutex<Known>,
    /// How many connections one caller uses at a time. One connection stays for others.
    most: usize,
    /// How many statements of one caller are in progress on each.
    in_progress: usize,
    started: Instant,
}

struct Known {
    callers: HashMap<Share, Arc<Caller>>,
    /// The number of callers at which to look for those without effect.
    full: usize,
}

/// A caller other than the program.
pub(super) struct Caller {
    turns: Semaphore,
    /// Statements in progress on each connection.
    on: Mutex<[u16; CONNECTIONS]>,
    /// In microseconds since the start.
    apart_until: AtomicU64,
    /// Until when a statement counts as several, likewise.
    watched_until: AtomicU64,
}

/// The turn of a statement: how many of the caller's it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn(u32);

impl Callers {
    /// Callers of that many connections, at most [`CONNECTIONS`].
    pub(super) fn new(connections: usize) -> Self {
        let known = Known { callers: HashMap::new(), full: KEPT };
        let in_progress = if connections > 1 { IN_PROGRESS } else { FEW_IN_PROGRESS };
        let most = connections.saturating_sub(1).max(1);
        Self { known: Mutex::new(known), most, in_progress, started: Instant::now() }
    }

    /// The caller with that share; `None` for the program, which has no limit.
    pub(super) fn of(&self, share: Share) -> Option<Arc<Caller>> {
        if share == Share::default() {
            return None;
        }
        let mut known = self.known.lock();
        if let Some(caller) = known.callers.get(&share) {
            return Some(caller.clone());
        }
        if known.callers.len() >= known.full {
            known.callers.retain(|_, caller| Arc::strong_count(caller) > 1 || self.is_watched(caller));
            known.full = (2 * known.callers.len()).max(KEPT);
        }
        let caller = Arc::new(Caller {
            turns: Semaphore::new(self.in_progress * self.most),
            on: Mutex::default(),
            apart_until: AtomicU64::new(0),
            watched_until: AtomicU64::new(0),
        });
        known.callers.insert(share, caller.clone());
        Some(caller)
    }

    /// Whether the caller reads apart now.
    pub(super) fn is_apart(&self, caller: &Caller) -> bool {
        let until = caller.apart_until.load(Ordering::Relaxed);
        until > 0 && until > self.now()
    }

    /// The caller reads apart from now on, the longer the more time a read takes from others.
    pub(super) fn set_apart(&self, caller: &Caller, cost: Duration) {
        let (now, more) = (self.now(), micros(cost.saturating_mul(TIMES_APART)));
        let later = |until: u64| Some(until.max(now).saturating_add(more).min(now + micros(LONGEST_APART)));
        let _always = caller.apart_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        caller.watched_until.store(now + micros(WATCHED), Ordering::Relaxed);
    }

    /// The caller was set apart for a read that was not slow: only the machine was busy.
    pub(super) fn forgive(&self, caller: &Caller) {
        let now = self.now();
        caller.apart_until.fetch_min(now, Ordering::Relaxed);
        caller.watched_until.fetch_min(now, Ordering::Relaxed);
    }

    /// Waits until the caller may send a further statement.
    pub(super) async fn turn(&self, caller: &Caller) -> Turn {
        let count = if self.is_watched(caller) { self.in_progress / FEW_IN_PROGRESS } else { 1 };
        let turn = Turn(u32::try_from(count).unwrap_or(1));
        if let Ok(permits) = caller.turns.acquire_many(turn.0).await {
            permits.forget();
        }
        turn
    }

    fn is_watched(&self, caller: &Caller) -> bool {
        let until = caller.watched_until.load(Ordering::Relaxed);
        until > 0 && until > self.now()
    }

    /// Chooses the connection with the fewest statements in progress for a statement of the caller. Between equal ones it chooses
    /// the first from `first` on.
    pub(super) fn choose(&self, caller: Option<&Caller>, loads: &[AtomicUsize], first: usize) -> usize {
        let count = loads.len();
        let mut on = caller.map(|caller| caller.on.lock());
        let is_at_most = on.as_ref().is_some_and(|on| on.iter().filter(|count| **count > 0).count() >= self.most);
        let from_first = (0..count).map(|step| (first + step) % count);
        let allowed = from_first.filter(|at| !is_at_most || on.as_ref().is_some_and(|on| on[*at] > 0));
        let at = allowed.min_by_key(|at| loads[*at].load(Ordering::Relaxed)).unwrap_or_default();
        loads[at].fetch_add(1, Ordering::Relaxed);
        if let Some(on) = &mut on {
            on[at] += 1;
        }
        at
    }

    fn now(&self) -> u64 {
        micros(self.started.elapsed())
    }
}

impl Caller {
    /// A statement has ended that had a place on the connection `at`.
    pub(super) fn leave(&self, at: usize, turn: Turn) {
        self.on.lock()[at] -= 1;
        self.pass(turn);
    }

    /// Returns a turn.
    pub(super) fn pass(&self, turn: Turn) {
        self.turns.add_permits(turn.0 as usize);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn loads(count: usize) -> Vec<AtomicUsize> {
        (0..count).map(|_| AtomicUsize::new(0)).collect()
    }

    #[test]
    fn a_caller_leaves_a_connection_to_others_and_waits_for_further_turns() {
        for connections in 1..=CONNECTIONS {
            let (callers, loads) = (Callers::new(connections), loads(connections));
            let used = (connections - 1).max(1);
            let (ann, bob) = (callers.of(Share(1)).unwrap(), callers.of(Share(2)).unwrap());
            let mut places = Vec::new();
            let mut turn = None;
            for number in 0..used * callers.in_progress {
                turn = callers.turn(&ann).now_or_never();
                assert!(turn.is_some(), "{connections}: {number}");
                places.push(callers.choose(Some(&ann), &loads, number));
            }
            assert!(callers.turn(&ann).now_or_never().is_none(), "{connections}: she has {} in progress", places.len());
            let free = (0..connections).find(|at| !places.contains(at));
            assert_eq!(free.is_some(), connections > 1);
            assert!(callers.turn(&bob).now_or_never().is_some(), "his turns are his own");
            let bobs = callers.choose(Some(&bob), &loads, 0);
            assert_eq!(bobs, free.unwrap_or_default(), "{connections}: he gets the connection without her statements");
            let first = places.remove(0);
            loads[first].fetch_sub(1, Ordering::Relaxed);
            ann.leave(first, turn.unwrap());
            assert!(callers.turn(&ann).now_or_never().is_some(), "{connections}: one of hers has ended");
        }
    }

    #[test]
    fn the_program_has_no_limit_and_uses_all_connections() {
        let (callers, loads) = (Callers::new(3), loads(3));
        assert!(callers.of(Share::default()).is_none());
        let mut places: Vec<_> = (0..6).map(|number| callers.choose(None, &loads, number)).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_caller_reads_apart_for_a_limited_time() {
        let callers = Callers::new(3);
        let (ann, bob) = (callers.of(Share(1)).unwrap(), callers.of(Share(2)).unwrap());
        callers.set_apart(&ann, Duration::from_hours(1));
        assert!(callers.is_apart(&ann) && !callers.is_apart(&bob));
        let until = Duration::from_micros(ann.apart_until.load(Ordering::Relaxed));
        assert!(until <= callers.started.elapsed() + LONGEST_APART);
        for number in 0..2 * FEW_IN_PROGRESS {
            assert!(callers.turn(&ann).now_or_never().is_some(), "{number}");
        }
        assert!(callers.turn(&ann).now_or_never().is_none(), "fewer of hers are in progress afterwards");
        callers.forgive(&ann);
        assert!(!callers.is_apart(&ann) && !callers.is_watched(&ann));
    }

    #[test]
    fn callers_who_do_not_read_are_removed() {
        let callers = Callers::new(3);
        let (ann, bob) = (callers.of(Share(1)).unwrap(), callers.of(Share(2)).unwrap());
        callers.set_apart(&ann, LONGEST_APART);
        drop((ann, callers.of(Share(3))));
        for number in 0..u64::try_from(10 * KEPT).unwrap() {
            callers.of(Share(100 + number)).unwrap();
        }
        let known = callers.known.lock();
        assert!(known.callers.len() <= KEPT);
        assert!(known.callers.contains_key(&Share(1)), "she read apart");
        assert!(known.callers.contains_key(&Share(2)) && !known.callers.contains_key(&Share(3)));
        drop(bob);
    }
}
