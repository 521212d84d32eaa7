//! Turns to read large bodies. Reading one takes a processor for up to tens of milliseconds, in which nothing else runs there.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use gatewright_base::{Shares, Turn};
use gatewright_db::Share;

/// Bodies with at least this many bytes need a turn.
const LARGE: usize = 4 << 10;

/// Each caller reads one large body at a time, and all of them together leave one processor to the others.
#[derive(Debug)]
pub(crate) struct BodyTurns(Shares<Share>);

impl BodyTurns {
    pub(crate) fn new() -> Self {
        Self::of(available_parallelism().map_or(1, NonZeroUsize::get))
    }

    fn of(processors: usize) -> Self {
        Self(Shares::within(1, processors.saturating_sub(1)))
    }

    /// Waits for the turn of a body with this many bytes. A small body needs no turn.
    pub(crate) async fn take(&self, share: Share, bytes: usize) -> Option<Turn> {
        if bytes < LARGE { None } else { Some(self.0.take(share).await) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_caller_reads_one_large_body_at_a_time_and_others_are_not_delayed() {
        let (turns, ann, bob, cleo) = (BodyTurns::of(3), Share(1), Share(2), Share(3));
        let first = turns.take(ann, LARGE).now_or_never().unwrap();
        assert!(turns.take(ann, LARGE).now_or_never().is_none(), "her second one waits");
        assert!(turns.take(ann, LARGE - 1).now_or_never().unwrap().is_none(), "a small one does not");
        let _bobs = turns.take(bob, 1 << 20).now_or_never().unwrap();
        assert!(turns.take(cleo, LARGE).now_or_never().is_none(), "one processor stays free");
        drop(first);
        assert!(turns.take(cleo, LARGE).now_or_never().is_some());
        assert!(BodyTurns::of(1).take(ann, LARGE).now_or_never().is_some());
    }
}
