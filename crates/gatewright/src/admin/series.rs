//! The metrics of the last hour, minute by minute, in memory, for the console's charts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_events::Streams;
use gatewright_events::outbox::Outbox;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

/// How many minutes are kept.
const MINUTES: usize = 60;
const HOUR: i64 = 60;
/// How often values that do not belong to a request are sampled.
const SAMPLED: Duration = Duration::from_secs(15);
/// The upper bounds of the latency's buckets, in milliseconds. The last bucket counts everything slower.
const BOUNDS: [u32; 10] = [1, 2, 5, 10, 25, 50, 100, 250, 1000, 2500];

/// The minutes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Series(Arc<Inner>);

struct Inner {
    ring: Mutex<[Minute; MINUTES]>,
    ambient: Ambient,
    sampler: Mutex<Option<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(sampler) = self.sampler.get_mut().take() {
            sampler.abort();
        }
    }
}

/// One minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Minute {
    /// Minutes since 1970; zero: unused so far.
    pub(crate) number: i64,
    pub(crate) requests: u64,
    /// Answers of 500 and above.
    pub(crate) errors: u64,
    /// Answers of 400 to 499.
    pub(crate) refusals: u64,
    /// The most streams that were open.
    pub(crate) streams: u64,
    /// The longest lag of the outbox, in seconds.
    pub(crate) lag: i64,
    slow: [u64; BOUNDS.len() + 1],
}

impl Series {
    pub(crate) fn new(ambient: Ambient) -> Self {
        Self(Arc::new(Inner { ring: Mutex::new([Minute::default(); MINUTES]), ambient, sampler: Mutex::default() }))
    }

    /// Counts an answer and the time until it began.
    pub(crate) fn count(&self, status: StatusCode, took: Duration) {
        self.now(|minute| {
            minute.requests += 1;
            minute.errors += u64::from(status.is_server_error());
            minute.refusals += u64::from(status.is_client_error());
            let slot = BOUNDS.iter().position(|bound| took <= Duration::from_millis((*bound).into()));
            minute.slow[slot.unwrap_or(BOUNDS.len())] += 1;
        });
    }

    /// Samples streams and outbox at intervals, until every clone of this is dropped.
    pub(crate) fn watch(&self, streams: Streams, outbox: Option<Outbox>) {
        let sampler = tokio::spawn(sample(Arc::downgrade(&self.0), streams, outbox));
        *self.0.sampler.lock() = Some(sampler.abort_handle());
    }

    fn look(&self, open: usize, lag: i64) {
        self.now(|minute| {
            minute.streams = minute.streams.max(open as u64);
            minute.lag = minute.lag.max(lag);
        });
    }

    /// The minutes of the last hour, the oldest first, including minutes without data.
    pub(crate) fn minutes(&self) -> Vec<Minute> {
        let present = self.0.number();
        let ring = *self.0.ring.lock();
        let first = present - HOUR + 1;
        let kept = |number: i64| ring.iter().find(|minute| minute.number == number).copied();
        (first..=present).map(|number| kept(number).unwrap_or(Minute { number, ..Minute::default() })).collect()
    }

    fn now(&self, change: impl FnOnce(&mut Minute)) {
        let number = self.0.number();
        let slot = usize::try_from(number.rem_euclid(HOUR)).unwrap_or_default();
        let mut ring = self.0.ring.lock();
        let minute = &mut ring[slot];
        if minute.number != number {
            *minute = Minute { number, ..Minute::default() };
        }
        change(minute);
    }
}

impl Inner {
    fn number(&self) -> i64 {
        self.ambient.now().as_second().div_euclid(60)
    }
}

impl Minute {
    /// An upper bound in milliseconds for this percentage of the answers; `None` without answers.
    pub(crate) fn percentile(&self, share: u64) -> Option<u32> {
        let wanted = (self.requests * share).div_ceil(100).max(1);
        let mut seen = 0;
        for (slot, count) in self.slow.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(BOUNDS.get(slot).copied().unwrap_or(10_000));
            }
        }
        None
    }
}

async fn sample(series: Weak<Inner>, streams: Streams, outbox: Option<Outbox>) {
    let mut tick = tokio::time::interval(SAMPLED);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let lag = match &outbox {
            Some(outbox) => outbox.lag_seconds().await.ok().and_then(|lag| lag.values().max().copied()),
            None => None,
        };
        let Some(inner) = series.upgrade() else { return };
        Series(inner).look(streams.stats().subscribers, lag.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use gatewright_base::{Clock, ManualClock, OsRng, SystemClock};
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn only_the_last_hour_is_kept() {
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let series = Series::new(Ambient::new(clock.clone(), Arc::new(OsRng)));
        for status in [200, 404, 500] {
            series.count(StatusCode::from_u16(status).unwrap(), Duration::from_millis(3));
        }
        series.count(StatusCode::OK, Duration::from_mins(1));
        series.look(7, 30);
        let minutes = series.minutes();
        let last = minutes.last().unwrap();
        assert_eq!((minutes.len(), last.requests, last.errors, last.refusals), (MINUTES, 4, 1, 1));
        assert_eq!((last.percentile(50), last.percentile(95)), (Some(5), Some(10_000)));
        assert_eq!((last.streams, last.lag, minutes[0].percentile(50)), (7, 30, None));

        clock.advance(SignedDuration::from_mins(59));
        assert_eq!(series.minutes()[0].requests, 4);
        clock.advance(SignedDuration::from_mins(1));
        assert!(series.minutes().iter().all(|minute| minute.requests == 0));
        series.count(StatusCode::OK, Duration::ZERO);
        assert_eq!(series.minutes().last().unwrap().requests, 1, "a slot is used again");
    }
}
