use std::time::Duration;

use super::{Counted, History, Policy};

/// Whether an attempt is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Admitted,
    /// It may not; the key is blocked for `retry_after` more.
    Blocked {
        /// More than zero, at most the policy's block duration.
        retry_after: Duration,
    },
}

/// Decides one attempt at `now`, in microseconds since 1970, and returns the history to store.
///
/// A clock that was set back makes no block longer than the policy. A counting key does not change until the clock has
/// caught up with it, or starts again if that would take longer than a window.
pub fn decide(policy: &Policy, history: History, now: i64) -> (Verdict, History) {
    let end_of_block = now.saturating_add(policy.block);
    match history {
        History::Blocked { until } if until > now => blocked(until.min(end_of_block), now),
        History::Counting(mut counted) if counted.is_live(policy, now) => {
            let at = now.max(counted.last());
            if counted.is_full(policy, at) {
                return blocked(end_of_block, now);
            }
            counted.add(policy, at);
            (Verdict::Admitted, History::Counting(counted))
        }
        _ => {
            let mut counted = Counted::beginning();
            counted.add(policy, now);
            (Verdict::Admitted, History::Counting(counted))
        }
    }
}

/// Takes back the attempt that was admitted at `at`, as if it had never been made. Later attempts stay, and a block is never
/// ended: an attempt that is no longer counted changes nothing.
pub fn give_back(policy: &Policy, history: History, at: i64, now: i64) -> History {
    match history {
        History::Counting(mut counted) if counted.is_live(policy, now) => {
            counted.remove(policy, at);
            History::Counting(counted)
        }
        other => other,
    }
}

fn blocked(until: i64, now: i64) -> (Verdict, History) {
    let retry_after = Duration::from_micros(until.abs_diff(now));
    (Verdict::Blocked { retry_after }, History::Blocked { until })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;
    const NOON: i64 = 1_700_000_000 * SECOND;

    fn policy(max: u32, window: u64, block: u64) -> Policy {
        Policy::new(max, Duration::from_secs(window), Duration::from_secs(block))
    }

    fn at(second: i64) -> i64 {
        NOON + second * SECOND
    }

    fn counting(marks: &[i64]) -> History {
        let marks: Vec<i64> = marks.iter().map(|second| at(*second)).collect();
        History::Counting(Counted::new(*marks.last().unwrap(), 0, &marks))
    }

    fn blocked(until: i64) -> History {
        History::Blocked { until: at(until) }
    }

    #[test]
    fn every_row_of_the_table_of_histories_holds() {
        let policy = policy(3, 10, 60);
        let refused = |seconds| Verdict::Blocked { retry_after: Duration::from_secs(seconds) };
        let cases = [
            // history, now, verdict, history after
            (History::Fresh, 0, Verdict::Admitted, counting(&[0])),
            (counting(&[0]), 0, Verdict::Admitted, counting(&[0, 0])),
            (counting(&[0, 4]), 9, Verdict::Admitted, counting(&[0, 4, 9])),
            (counting(&[0, 4, 9]), 9, refused(60), blocked(69)),
            // The window slides: at 10, the attempt at 0 is outside of it, the others are not.
            (counting(&[0, 4, 9]), 10, Verdict::Admitted, counting(&[4, 9, 10])),
            (counting(&[4, 9, 10]), 13, refused(60), blocked(73)),
            (counting(&[4, 9, 10]), 14, Verdict::Admitted, counting(&[9, 10, 14])),
            // A window without an attempt.
            (counting(&[0, 4, 9]), 19, Verdict::Admitted, counting(&[19])),
            (counting(&[0]), 500, Verdict::Admitted, counting(&[500])),
            (blocked(69), 10, refused(59), blocked(69)),
            (blocked(69), 68, refused(1), blocked(69)),
            (blocked(69), 69, Verdict::Admitted, counting(&[69])),
            (blocked(69), 500, Verdict::Admitted, counting(&[500])),
            // The policy became stricter in between.
            (counting(&[0, 1, 2, 3, 4]), 5, refused(60), blocked(65)),
            (counting(&[-9, -8, 2, 3, 4]), 12, Verdict::Admitted, counting(&[3, 4, 12])),
            // The clock was set back: by a little, and by more than a window.
            (counting(&[8, 9]), 5, Verdict::Admitted, counting(&[8, 9, 9])),
            (counting(&[8, 9, 9]), 5, refused(60), blocked(65)),
            (counting(&[98, 99, 99]), 5, Verdict::Admitted, counting(&[5])),
            (blocked(1000), 0, refused(60), blocked(60)),
        ];
        for (history, now, verdict, after) in cases {
            let outcome = decide(&policy, history.clone(), at(now));
            assert_eq!(outcome, (verdict, after), "{history:?} at {now}");
        }
    }

    #[test]
    fn only_the_own_attempt_is_given_back() {
        let exact = policy(3, 10, 60);
        let cases = [
            // history, time of the attempt, now, history after
            (counting(&[0]), 0, 1, History::Counting(Counted::new(at(0), 0, &[]))),
            (counting(&[0, 4, 9]), 4, 9, counting(&[0, 9])),
            (counting(&[4, 4, 9]), 4, 9, counting(&[4, 9])),
            (counting(&[0, 4]), 4, 9, History::Counting(Counted::new(at(4), 0, &[at(0)]))),
            // It was forgotten, or has left the count.
            (counting(&[4, 9]), 0, 9, counting(&[4, 9])),
            (counting(&[4]), 5, 9, counting(&[4])),
            (counting(&[0]), 0, 10, counting(&[0])),
            (History::Fresh, 0, 1, History::Fresh),
            (blocked(60), 0, 1, blocked(60)),
        ];
        for (history, own, now, after) in cases {
            assert_eq!(give_back(&exact, history.clone(), at(own), at(now)), after, "{history:?}, {own}");
        }
    }

    #[test]
    fn extreme_times_are_handled() {
        let policy = Policy::new(1, Duration::MAX, Duration::MAX);
        for times in [[i64::MIN, i64::MIN], [i64::MIN, i64::MAX], [i64::MAX, i64::MIN], [i64::MAX, i64::MAX]] {
            let (_, history) = decide(&policy, History::Fresh, times[0]);
            let (_, history) = decide(&policy, history, times[1]);
            let (_, history) = decide(&policy, history, times[1]);
            decide(&policy, history, times[0]);
        }
    }

    #[test]
    fn a_budget_spent_on_both_sides_of_an_edge_is_one_budget() {
        for max in [1, 2, 10, 64, 65, 1_000, 100_000] {
            let policy = policy(max, 900, 900);
            let mut history = History::Fresh;
            let mut admitted = 0;
            let mut attempts = |history: &mut History, count: u32, now: i64| {
                for _ in 0..count {
                    let (verdict, after) = decide(&policy, std::mem::take(history), now);
                    *history = after;
                    admitted += u32::from(verdict == Verdict::Admitted);
                }
                admitted
            };
            // The first attempt, which would anchor a fixed window; then all except it just before that window's end.
            attempts(&mut history, 1, at(0));
            assert_eq!(attempts(&mut history, max - 1, at(899)), max, "a burst gets the whole budget");
            // With a fixed window, nearly a whole new budget would be available just after that end.
            let in_all = attempts(&mut history, max, at(901));
            assert!(in_all <= max + 1, "{in_all} of {max}, of which the first is out of the window");
        }
    }

    #[test]
    fn the_stored_size_is_limited_for_any_number_of_attempts() {
        let policy = policy(1_000_000, 900, 900);
        let mut history = History::Fresh;
        for number in 0..1_000_000 {
            let (verdict, after) = decide(&policy, history, NOON + number);
            assert_eq!(verdict, Verdict::Admitted, "attempt {number}");
            history = after;
        }
        let History::Counting(counted) = &history else { panic!("{history:?}") };
        assert!(counted.marks().len() <= 64);
        assert_ne!(decide(&policy, history, NOON + 1_000_000).0, Verdict::Admitted);
    }

    proptest! {
        /// Compares with a list of the attempts that were not given back: no more of them than the limit are in a window, and no
        /// give-back frees more than one.
        #[test]
        fn the_limit_holds_for_attempts_that_are_not_given_back(
            max in prop_oneof![1_u32..8, 60_u32..70, 120_u32..300],
            steps in prop::collection::vec((0_i64..40_000, 0_usize..6, any::<bool>()), 1..900),
        ) {
            let policy = policy(max, 15, 3_600);
            let (mut now, mut history) = (NOON, History::Fresh);
            let (mut counted, mut in_flight): (Vec<i64>, VecDeque<i64>) = (Vec::new(), VecDeque::new());
            for (step, older, succeeds) in steps {
                now += step;
                if succeeds && let Some(own) = in_flight.remove(older) {
                    let before = history.clone();
                    history = give_back(&policy, history, own, now);
                    if policy.attempts_per_mark() == 1 || history != before {
                        let place = counted.iter().position(|time| *time == own);
                        place.map(|place| counted.remove(place));
                    }
                    continue;
                }
                let (verdict, after) = decide(&policy, history, now);
                history = after;
                if verdict != Verdict::Admitted {
                    break;
                }
                counted.push(now);
                in_flight.push_front(now);
                let inside = counted.iter().filter(|time| **time + policy.window_micros() > now).count();
                prop_assert!(inside <= max as usize, "{inside} of {max} within a window");
            }
        }

        /// Compares with a list of all admitted attempts: no period of a window's length without a block admits too many;
        /// a refusal only occurs if the budget is used up or, above the exact limit, nearly used up; a block refuses all
        /// and ends at its time.
        #[test]
        fn the_limits_hold_at_any_pace_of_attempts(
            max in prop_oneof![1_u32..8, 60_u32..70, 120_u32..300],
            window in 1_u64..30,
            block in 1_u64..40,
            pace in prop::collection::vec(prop_oneof![4 => 0_i64..50_000, 1 => 0_i64..12_000_000], 1..1200),
        ) {
            let policy = policy(max, window, block);
            let (mut now, mut history) = (NOON, History::Fresh);
            let mut admitted: VecDeque<i64> = VecDeque::new();
            let mut block_end: Option<i64> = None;
            for step in pace {
                now += step;
                while admitted.front().is_some_and(|time| time + policy.window_micros() <= now) {
                    admitted.pop_front();
                }
                let (verdict, after) = decide(&policy, history, now);
                match verdict {
                    Verdict::Admitted => {
                        prop_assert!(block_end.is_none_or(|end| now >= end), "admitted within a block");
                        admitted.push_back(now);
                        prop_assert!(admitted.len() <= max as usize, "{} of {max} within a window", admitted.len());
                    }
                    Verdict::Blocked { retry_after } => {
                        let end = now + i64::try_from(retry_after.as_micros()).unwrap();
                        prop_assert!(end > now && end <= now + policy.block_micros());
                        if block_end.is_some_and(|known| known > now) {
                            prop_assert_eq!(block_end, Some(end), "a block was prolonged");
                        } else {
                            let spent = max - (policy.attempts_per_mark() - 1);
                            prop_assert!(admitted.len() >= spent as usize, "refused after {} of {max}", admitted.len());
                        }
                        block_end = Some(end);
                        admitted.clear();
                        prop_assert_eq!(decide(&policy, after.clone(), end).0, Verdict::Admitted);
                        prop_assert_ne!(decide(&policy, after.clone(), end - 1).0, Verdict::Admitted);
                    }
                }
                history = after;
            }
        }
    }
}
