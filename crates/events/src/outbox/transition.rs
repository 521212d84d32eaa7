//! The state machine of a delivery, as pure functions: without a clock, a database or randomness.
//!
//! The statements in `deliveries` do the same to rows. A test compares each of them with these functions, and
//! `protocol` runs these functions in every order in which two relays, a crash and a slow handler can interleave.
//!
//! A lease is its own token. A claim is possible only after the previous lease has ended, so each claim and each
//! renewal ends later than all earlier ones, and no two owners of a delivery have the same `claimed_until`. The only
//! exception is a lease of a dead relay, which others end early, so the statements also compare the relay's name.

use std::time::Duration;

use gatewright_db::{FromValue, Value};
use jiff::{SignedDuration, Timestamp};

/// The status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryStatus {
    /// It will be delivered, for the first time or again.
    Pending,
    /// Its handler returned without an error.
    Dispatched,
    /// The limit of failures is reached.
    Dead,
    /// No replica had a handler for it during the grace period.
    Abandoned,
}

/// The status of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowStatus {
    /// It is younger than the grace period, or has pending deliveries.
    Pending,
    /// All its deliveries have ended, or there was no consumer.
    Dispatched,
}

/// How long a failed delivery waits: doubled with every failure, with random jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first failure.
    pub first: Duration,
    /// The longest wait after any.
    pub cap: Duration,
}

impl Default for Backoff {
    /// One second, up to an hour.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), cap: Duration::from_hours(1) }
    }
}

impl Backoff {
    /// The wait after the `failures`th failure: between half of its longest and all of it, by `chance`.
    pub fn wait(&self, failures: u32, chance: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let longest = self.first.saturating_mul(1 << doublings).min(self.cap);
        let half = longest / 2;
        let spread = u128::from(chance) * half.as_nanos() / u128::from(u64::MAX);
        half + Duration::from_nanos(u64::try_from(spread).unwrap_or(u64::MAX))
    }
}

/// The inputs of the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Failures after which a delivery is dead.
    pub max_attempts: u32,
    /// How long a claim is valid without renewal.
    pub lease: Duration,
    /// How long a delivery waits for a handler.
    pub grace: Duration,
    /// How long a failed delivery waits.
    pub backoff: Backoff,
}

/// Proof of a claim: when it ends.
pub type Lease = Timestamp;

/// How a handler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It returned without an error.
    Succeeded,
    /// It returned an error or panicked.
    Failed,
}

/// The part of a delivery that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// Its status.
    pub status: DeliveryStatus,
    /// How often its handler failed since it was created or replayed.
    pub attempts: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// The time of the next attempt.
    pub next_attempt_at: Timestamp,
    /// The end of the lease of the relay that claimed it.
    pub claimed_until: Option<Lease>,
}

impl Delivery {
    /// A delivery of a row that was staged at `staged`. It is due at once, before those of later rows, even if the
    /// replica that staged it has a clock ahead of ours.
    pub fn new(staged: Timestamp, now: Timestamp) -> Self {
        Self {
            status: DeliveryStatus::Pending,
            attempts: 0,
            created_at: now,
            next_attempt_at: staged.min(now),
            claimed_until: None,
        }
    }

    /// A relay claims it, if it is due and not claimed.
    pub fn claim(&self, now: Timestamp, policy: &Policy) -> Option<Self> {
        let due = self.status == DeliveryStatus::Pending && self.next_attempt_at <= now && self.is_free(now);
        due.then(|| Self { claimed_until: Some(later(now, policy.lease)), ..*self })
    }

    /// The owner extends its lease.
    pub fn renew(&self, lease: Lease, now: Timestamp, policy: &Policy) -> Option<Self> {
        self.owned_by(lease).then(|| Self { claimed_until: Some(renewed(lease, now, policy)), ..*self })
    }

    /// The owner's handler has ended.
    pub fn settle(&self, lease: Lease, outcome: Outcome, now: Timestamp, policy: &Policy, chance: u64) -> Option<Self> {
        if !self.owned_by(lease) {
            return None;
        }
        let ended = Self { claimed_until: None, ..*self };
        Some(match outcome {
            Outcome::Succeeded => Self { status: DeliveryStatus::Dispatched, ..ended },
            Outcome::Failed => {
                let (attempts, retry) = failed(self.attempts, now, policy, chance);
                match retry {
                    Some(next_attempt_at) => Self { attempts, next_attempt_at, ..ended },
                    None => Self { status: DeliveryStatus::Dead, attempts, ..ended },
                }
            }
        })
    }

    /// The owner releases it unhandled.
    pub fn release(&self, lease: Lease) -> Option<Self> {
        self.owned_by(lease).then_some(Self { claimed_until: None, ..*self })
    }

    /// Abandons it after the grace period. The caller has checked that no replica handles its consumer.
    pub fn abandon(&self, now: Timestamp, policy: &Policy) -> Option<Self> {
        let cutoff = earlier(now, policy.grace);
        // After a replay, the grace period begins again.
        let old = self.created_at <= cutoff && self.next_attempt_at <= cutoff;
        let gone = self.status == DeliveryStatus::Pending && old && self.is_free(now);
        gone.then_some(Self { status: DeliveryStatus::Abandoned, claimed_until: None, ..*self })
    }

    /// An operator requests it again.
    pub fn replay(&self, now: Timestamp) -> Option<Self> {
        matches!(self.status, DeliveryStatus::Dead | DeliveryStatus::Abandoned).then_some(Self {
            status: DeliveryStatus::Pending,
            attempts: 0,
            next_attempt_at: now,
            claimed_until: None,
            ..*self
        })
    }

    /// A token pulls it, if it is due and not claimed. An expired lease counts as a failure. It is not due again before
    /// the new lease ends.
    pub fn pull(&self, now: Timestamp, policy: &Policy) -> Option<Self> {
        self.claim(now, policy)?;
        let attempts = self.attempts.saturating_add(u32::from(self.claimed_until.is_some()));
        if self.claimed_until.is_some() && attempts >= policy.max_attempts {
            return Some(Self { status: DeliveryStatus::Dead, attempts, claimed_until: None, ..*self });
        }
        let lease = later(now, policy.lease);
        Some(Self { attempts, next_attempt_at: lease, claimed_until: Some(lease), ..*self })
    }

    /// The token that pulled it acknowledges it.
    pub fn acknowledge(&self, now: Timestamp) -> Option<Self> {
        let held = self.is_held(now);
        held.then_some(Self { status: DeliveryStatus::Dispatched, claimed_until: None, ..*self })
    }

    /// The token that pulled it refuses it: it counts as failed and is delivered again after `delay`.
    pub fn refuse(&self, now: Timestamp, policy: &Policy, delay: Option<Duration>, chance: u64) -> Option<Self> {
        let (attempts, retry) = refused(self.attempts, now, policy, delay, chance);
        let status = if retry.is_some() { DeliveryStatus::Pending } else { DeliveryStatus::Dead };
        let next_attempt_at = retry.unwrap_or(self.next_attempt_at);
        self.is_held(now).then_some(Self { status, attempts, next_attempt_at, claimed_until: None, ..*self })
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.status == DeliveryStatus::Pending && self.claimed_until.is_some_and(|until| until > now)
    }

    fn is_free(&self, now: Timestamp) -> bool {
        self.claimed_until.is_none_or(|until| until <= now)
    }

    fn owned_by(&self, lease: Lease) -> bool {
        self.status == DeliveryStatus::Pending && self.claimed_until == Some(lease)
    }
}

/// The count after one more failure, and when to retry; `None` if that was the last attempt.
pub fn failed(attempts: u32, now: Timestamp, policy: &Policy, chance: u64) -> (u32, Option<Timestamp>) {
    let attempts = attempts.saturating_add(1);
    let retry = attempts < policy.max_attempts;
    (attempts, retry.then(|| later(now, policy.backoff.wait(attempts, chance))))
}

/// The count after the consumer refused one more attempt, and when to try again: after `delay`, if it is set.
pub fn refused(
    attempts: u32,
    now: Timestamp,
    policy: &Policy,
    delay: Option<Duration>,
    chance: u64,
) -> (u32, Option<Timestamp>) {
    let (attempts, retry) = failed(attempts, now, policy, chance);
    (attempts, retry.map(|retry| delay.map_or(retry, |delay| later(now, delay))))
}

/// When a renewed lease ends: always later than before, even if the clock goes back.
pub fn renewed(lease: Lease, now: Timestamp, policy: &Policy) -> Lease {
    later(now, policy.lease).max(later(lease, Duration::from_micros(1)))
}

/// `time` plus `wait`, cut to the microsecond that databases keep.
pub(super) fn later(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    micros(time.saturating_add(wait).unwrap_or(Timestamp::MAX))
}

/// `time` minus `wait`, cut likewise.
pub(super) fn earlier(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    micros(time.saturating_sub(wait).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// `time`, cut to the microsecond that databases keep: a token must come back as it went in.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

macro_rules! words {
    ($status:ty, $($variant:ident => $word:literal),+) => {
        impl $status {
            /// The status as text in the database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The status for a text in the database.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $status {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $status {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl FromValue for $status {
            const EXPECTED: &'static str = concat!("one of ", $($word, " "),+);
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Text(word) => Self::parse(word),
                    _ => None,
                }
            }
        }
    };
}

words!(DeliveryStatus, Pending => "pending", Dispatched => "dispatched", Dead => "dead", Abandoned => "abandoned");
words!(RowStatus, Pending => "pending", Dispatched => "dispatched");

#[cfg(test)]
mod tests {
    use super::*;
    use DeliveryStatus::{Abandoned, Dead, Dispatched, Pending};

    const POLICY: Policy = Policy {
        max_attempts: 3,
        lease: Duration::from_mins(1),
        grace: Duration::from_mins(15),
        backoff: Backoff { first: Duration::from_secs(1), cap: Duration::from_secs(3) },
    };

    type Step = fn(&Delivery) -> Option<Delivery>;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn delivery(status: DeliveryStatus, attempts: u32, claimed_until: Option<i64>) -> Delivery {
        let claimed_until = claimed_until.map(at);
        Delivery { status, attempts, created_at: at(0), next_attempt_at: at(0), claimed_until }
    }

    #[test]
    fn every_transition_has_its_next_state() {
        let pending = |attempts, claimed| delivery(Pending, attempts, claimed);
        let later = |second, delivery: Delivery| Delivery { next_attempt_at: at(second), ..delivery };
        let claim: Step = |d| d.claim(at(10), &POLICY);
        let renew: Step = |d| d.renew(at(70), at(40), &POLICY);
        let succeed: Step = |d| d.settle(at(70), Outcome::Succeeded, at(50), &POLICY, 0);
        let fail: Step = |d| d.settle(at(70), Outcome::Failed, at(50), &POLICY, u64::MAX);
        let release: Step = |d| d.release(at(70));
        let abandon: Step = |d| d.abandon(at(900), &POLICY);
        let replay: Step = |d| d.replay(at(10));
        let cases = [
            ("due", claim, pending(0, None), Some(pending(0, Some(70)))),
            ("taken by another", claim, pending(0, Some(11)), None),
            ("left by another", claim, pending(1, Some(10)), Some(pending(1, Some(70)))),
            ("not due", claim, later(11, pending(1, None)), None),
            ("dispatched already", claim, delivery(Dispatched, 0, None), None),
            ("dead", claim, delivery(Dead, 3, None), None),
            ("abandoned", claim, delivery(Abandoned, 0, None), None),
            ("held", renew, pending(0, Some(70)), Some(pending(0, Some(100)))),
            ("taken over", renew, pending(0, Some(130)), None),
            ("given back", renew, pending(0, None), None),
            ("held", succeed, pending(1, Some(70)), Some(delivery(Dispatched, 1, None))),
            ("taken over", succeed, pending(1, Some(130)), None),
            ("settled before", succeed, delivery(Dispatched, 0, None), None),
            ("the first failure", fail, pending(0, Some(70)), Some(later(51, pending(1, None)))),
            ("the second failure", fail, pending(1, Some(70)), Some(later(52, pending(2, None)))),
            ("the last failure", fail, pending(2, Some(70)), Some(delivery(Dead, 3, None))),
            ("taken over", fail, pending(0, Some(130)), None),
            ("held", release, pending(1, Some(70)), Some(pending(1, None))),
            ("taken over", release, pending(1, Some(130)), None),
            ("as old as the grace", abandon, pending(2, None), Some(delivery(Abandoned, 2, None))),
            ("left by its relay", abandon, pending(0, Some(900)), Some(delivery(Abandoned, 0, None))),
            ("held", abandon, pending(0, Some(901)), None),
            ("tried lately", abandon, later(1, pending(1, None)), None),
            ("dispatched", abandon, delivery(Dispatched, 0, None), None),
            ("dead", abandon, delivery(Dead, 3, None), None),
            ("dead", replay, delivery(Dead, 3, None), Some(later(10, pending(0, None)))),
            ("abandoned", replay, delivery(Abandoned, 1, None), Some(later(10, pending(0, None)))),
            ("pending", replay, pending(1, None), None),
            ("dispatched", replay, delivery(Dispatched, 0, None), None),
        ];
        for (index, (name, step, before, after)) in cases.into_iter().enumerate() {
            assert_eq!(step(&before), after, "case {index}: {name}");
        }
    }

    #[test]
    fn waits_double_up_to_the_cap_and_are_spread() {
        for (failures, half, all) in
            [(1, 500, 1_000), (2, 1_000, 2_000), (3, 1_500, 3_000), (4, 1_500, 3_000), (u32::MAX, 1_500, 3_000)]
        {
            assert_eq!(POLICY.backoff.wait(failures, 0), Duration::from_millis(half));
            assert_eq!(POLICY.backoff.wait(failures, u64::MAX), Duration::from_millis(all));
            let middle = POLICY.backoff.wait(failures, u64::MAX / 2);
            assert!(middle > Duration::from_millis(half) && middle < Duration::from_millis(all));
        }
    }

    #[test]
    fn a_renewal_ends_later_than_the_lease_even_if_the_clock_went_back() {
        assert_eq!(renewed(at(70), at(-500), &POLICY), at(70) + SignedDuration::from_micros(1));
    }

    #[test]
    fn a_row_from_a_clock_ahead_is_due_at_once() {
        assert!(Delivery::new(at(100), at(0)).claim(at(0), &POLICY).is_some());
    }

    #[test]
    fn statuses_are_parsed_only_from_their_own_names() {
        for status in [Pending, Dispatched, Dead, Abandoned] {
            assert_eq!(DeliveryStatus::parse(status.as_str()), Some(status));
        }
        assert_eq!(DeliveryStatus::parse("gone"), None);
        assert_eq!(RowStatus::parse("dead"), None);
    }
}
