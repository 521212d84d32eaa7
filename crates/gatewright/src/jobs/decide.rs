//! What is to be done about a job: a pure function of its row, its schedule and the time.

use jiff::{SignedDuration, Timestamp};

use super::cron::Schedule;

/// How often a run is begun whose server died: a run that ends its server must not end every server after it. A run that its server has
/// released does not count.
pub(super) const MAX_ATTEMPTS: i64 = 3;
/// Where the latest due time is so much later than the present, the clock was wrong. Otherwise it was set back, or servers differ, and what
/// has run does not run again.
const CORRECTED: SignedDuration = SignedDuration::from_hours(3);
/// For a schedule that has no further time in the calendar.
const NEVER: SignedDuration = SignedDuration::from_hours(24 * 365 * 50);

/// The row of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) next_at: Timestamp,
    /// The latest due time that was begun or skipped.
    pub(super) last_due_at: Option<Timestamp>,
    /// When an operator asked for a run.
    pub(super) requested_at: Option<Timestamp>,
    pub(super) running: Option<Running>,
}

/// The run in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) run: Begun,
    pub(super) sign: Sign,
}

/// What the server of a run says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// It goes on.
    Alive,
    /// Nothing: it has died.
    Dead,
    /// It was stopped, and has given the run up.
    Released,
}

/// A run, as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) cause: Cause,
    pub(super) due_at: Timestamp,
    /// From 1. It rises only after the death of a server.
    pub(super) attempt: i64,
}

/// Why a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Schedule,
    Operator,
}

/// What becomes of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    /// The next due time.
    pub(super) next_at: Timestamp,
    pub(super) act: Act,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    /// A due time passes, because the run before has not ended.
    Skip(Timestamp),
    /// A run begins. `after_dead`: in the place of one whose server died or has released it.
    Begin {
        run: Begun,
        after_dead: bool,
    },
    /// The run whose server died is not begun again.
    GiveUp,
}

/// The next due time of a job that is new, or has another schedule.
pub(super) fn first(schedule: &Schedule, now: Timestamp) -> Timestamp {
    schedule.next_after(now).unwrap_or_else(|| now.saturating_add(NEVER).unwrap_or(now))
}

pub(super) fn decide(state: &State, schedule: &Schedule, now: Timestamp) -> Decision {
    let mut next_at = state.next_at;
    if next_at > now {
        // After the clock was set back, the next time may be earlier than it seemed.
        let passed = state.last_due_at.filter(|due| due.duration_since(now) < CORRECTED);
        next_at = next_at.min(first(schedule, passed.map_or(now, |due| due.max(now))));
    }
    let is_due = next_at <= now;
    let following = if is_due { first(schedule, now) } else { next_at };
    match &state.running {
        Some(Running { sign: Sign::Alive, .. }) if is_due => Decision { next_at: following, act: Act::Skip(next_at) },
        Some(Running { sign: Sign::Alive, .. }) => Decision { next_at, act: Act::Nothing },
        Some(Running { run, sign: Sign::Released }) => {
            Decision { next_at, act: Act::Begin { run: run.clone(), after_dead: true } }
        }
        Some(Running { run, sign: Sign::Dead }) if run.attempt < MAX_ATTEMPTS => {
            let run = Begun { attempt: run.attempt + 1, ..run.clone() };
            Decision { next_at, act: Act::Begin { run, after_dead: true } }
        }
        Some(Running { sign: Sign::Dead, .. }) => Decision { next_at, act: Act::GiveUp },
        None if is_due => {
            let run = Begun { cause: Cause::Schedule, due_at: next_at, attempt: 1 };
            Decision { next_at: following, act: Act::Begin { run, after_dead: false } }
        }
        None => match state.requested_at {
            Some(requested) => {
                let run = Begun { cause: Cause::Operator, due_at: requested, attempt: 1 };
                Decision { next_at, act: Act::Begin { run, after_dead: false } }
            }
            None => Decision { next_at, act: Act::Nothing },
        },
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-{time}:00Z").parse().unwrap()
    }

    fn daily() -> Schedule {
        Schedule::parse("0 3 * * *", TimeZone::UTC).unwrap()
    }

    fn idle(next: &str) -> State {
        State { next_at: at(next), last_due_at: None, requested_at: None, running: None }
    }

    fn running(state: &State, attempt: i64, sign: Sign) -> State {
        let run = Begun { cause: Cause::Schedule, due_at: at("01T03:00"), attempt };
        State { running: Some(Running { run, sign }), ..state.clone() }
    }

    fn decided(state: &State, now: &str) -> (Timestamp, Act) {
        let Decision { next_at, act } = decide(state, &daily(), at(now));
        (next_at, act)
    }

    #[test]
    fn missed_times_run_once() {
        let run = Begun { cause: Cause::Schedule, due_at: at("02T03:00"), attempt: 1 };
        let begun = Act::Begin { run, after_dead: false };
        assert_eq!(decided(&idle("02T03:00"), "02T02:59"), (at("02T03:00"), Act::Nothing));
        assert_eq!(decided(&idle("02T03:00"), "02T03:00"), (at("03T03:00"), begun.clone()));
        assert_eq!(decided(&idle("02T03:00"), "09T12:00"), (at("10T03:00"), begun), "for the first that was missed");
    }

    #[test]
    fn a_due_time_is_skipped_while_a_run_is_in_progress_and_a_dead_run_is_made_again() {
        let busy = running(&idle("02T03:00"), 1, Sign::Alive);
        assert_eq!(decided(&busy, "02T03:01"), (at("03T03:00"), Act::Skip(at("02T03:00"))));
        assert_eq!(decided(&busy, "02T02:00").1, Act::Nothing);
        let dead = running(&idle("02T03:00"), 1, Sign::Dead);
        let again = Begun { cause: Cause::Schedule, due_at: at("01T03:00"), attempt: 2 };
        assert_eq!(decided(&dead, "02T02:00"), (at("02T03:00"), Act::Begin { run: again, after_dead: true }));
        assert_eq!(decided(&running(&idle("02T03:00"), MAX_ATTEMPTS, Sign::Dead), "02T02:00").1, Act::GiveUp);
    }

    #[test]
    fn a_run_that_its_server_has_released_is_no_attempt_more() {
        for attempt in 1..=MAX_ATTEMPTS {
            let run = Begun { cause: Cause::Schedule, due_at: at("01T03:00"), attempt };
            let released = running(&idle("02T03:00"), attempt, Sign::Released);
            let again = Act::Begin { run, after_dead: true };
            assert_eq!(decided(&released, "02T02:00"), (at("02T03:00"), again));
        }
    }

    #[test]
    fn an_operator_gets_one_run_and_the_schedule_stays() {
        let requested = State { requested_at: Some(at("01T09:00")), ..idle("02T03:00") };
        let run = Begun { cause: Cause::Operator, due_at: at("01T09:00"), attempt: 1 };
        assert_eq!(decided(&requested, "01T09:01"), (at("02T03:00"), Act::Begin { run, after_dead: false }));
        let busy = running(&requested, 1, Sign::Alive);
        assert_eq!(decided(&busy, "01T09:01").1, Act::Nothing);
    }

    #[test]
    fn a_clock_that_is_set_back_neither_repeats_a_run_nor_stops_the_job() {
        let ran = State { last_due_at: Some(at("02T03:00")), ..idle("03T03:00") };
        assert_eq!(decided(&ran, "02T02:30"), (at("03T03:00"), Act::Nothing), "an hour back");
        // It was wrong by years.
        let far: Timestamp = "2031-01-01T03:00:00Z".parse().unwrap();
        let wrong = State { next_at: far, last_due_at: Some(far), ..idle("03T03:00") };
        assert_eq!(decided(&wrong, "02T02:30"), (at("02T03:00"), Act::Nothing));
        let only_next = State { next_at: far, ..idle("03T03:00") };
        assert_eq!(decided(&only_next, "02T02:30"), (at("02T03:00"), Act::Nothing));
    }
}
