use std::collections::{HashMap, HashSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::share::Holder;

/// How long writes do not ask the filters of a caller, one of which took too long.
const ASIDE: SignedDuration = SignedDuration::from_secs(60);
/// The limit of overruns of one entity in that time. When it is reached, writes to the entity evaluate no filters, so that
/// many callers, or a series of new ones, cannot slow down every write.
const MOST: usize = 16;

/// The callers whose filters took longer than the limit of a write, by entity.
#[derive(Debug, Default)]
pub(super) struct Overruns(Mutex<HashMap<usize, VecDeque<Overrun>>>);

#[derive(Debug)]
struct Overrun {
    at: Timestamp,
    callers: HashSet<Holder>,
}

impl Overruns {
    /// Notes that a filter of these callers took too long.
    pub(super) fn note<'a>(&self, entity: usize, callers: impl Iterator<Item = &'a Holder>, now: Timestamp) {
        let mut all = self.0.lock();
        let overruns = all.entry(entity).or_default();
        overruns.push_back(Overrun { at: now, callers: callers.cloned().collect() });
        if overruns.len() > MOST {
            overruns.pop_front();
        }
    }

    /// Whether a write skips a filter of these callers: each of them has an overrun, or the entity has too many.
    pub(super) fn include<'a>(
        &self,
        entity: usize,
        mut callers: impl Iterator<Item = &'a Holder>,
        now: Timestamp,
    ) -> bool {
        let mut all = self.0.lock();
        let Some(overruns) = all.get_mut(&entity) else { return false };
        overruns.retain(|overrun| now.duration_since(overrun.at) < ASIDE);
        if overruns.is_empty() {
            all.remove(&entity);
            return false;
        }
        overruns.len() >= MOST || callers.all(|caller| overruns.iter().any(|overrun| overrun.callers.contains(caller)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_caller_is_skipped_for_a_while_and_all_are_after_many_overruns() {
        let (overruns, start) = (Overruns::default(), Timestamp::UNIX_EPOCH);
        let at = |seconds| start + SignedDuration::from_secs(seconds);
        let names: Vec<Holder> =
            (0..20).map(|number| Holder::Network(Some(format!("192.0.2.{number}").into()))).collect();
        let (ann, ben) = (&names[0], &names[1]);
        overruns.note(7, [ann].into_iter(), start);
        assert!(overruns.include(7, [ann].into_iter(), at(59)));
        assert!(!overruns.include(7, [ann, ben].into_iter(), at(59)), "ben has it too, and did nothing");
        assert!(!overruns.include(7, [ben].into_iter(), at(59)));
        assert!(!overruns.include(8, [ann].into_iter(), at(59)), "another entity");
        assert!(!overruns.include(7, [ann].into_iter(), at(60)));
        for name in &names[2..18] {
            overruns.note(7, [name].into_iter(), at(100));
        }
        assert!(overruns.include(7, [ben].into_iter(), at(159)));
        assert!(!overruns.include(7, [ben].into_iter(), at(160)));
        assert!(overruns.0.lock().is_empty());
    }
}
