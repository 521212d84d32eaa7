use std::sync::atomic::{AtomicU64, Ordering};

use gatewright_base::Ambient;
use uuid::Builder;

/// Makes the ids of records: UUID version 7, each greater than the one before.
///
/// Lists are in id order, and that must be the order of creation, also within a millisecond. So the 12 bits after the
/// timestamp are its next digits (RFC 9562, section 6.2, method 3), and a process never repeats a value of the 60 bits
/// together, even if its clock stops or goes back. The remaining 62 bits are random.
#[derive(Debug, Default)]
pub(crate) struct Ids(AtomicU64);

impl Ids {
    /// The next id.
    pub(crate) fn next(&self, ambient: &Ambient) -> String {
        let now = ambient.now();
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
        let nanos = u64::try_from(now.as_nanosecond().rem_euclid(1_000_000)).unwrap_or(0);
        let time = (millis << 12) | (nanos * 4096 / 1_000_000);
        let after = |last: u64| time.max(last + 1);
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        let ticket = after(last.unwrap_or_else(|last| last));
        let mut bytes: [u8; 10] = ambient.bytes();
        // Version and variant overwrite the upper bits of bytes 0 and 2.
        bytes[..2].copy_from_slice(&u16::try_from(ticket & 0xfff).unwrap_or(0).to_be_bytes());
        Builder::from_unix_timestamp_millis(ticket >> 12, &bytes).into_uuid().to_string()
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    #[test]
    fn ids_rise_if_the_clock_stops_runs_or_goes_back() {
        let start: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let (ambient, clock) = Ambient::manual(start, 1);
        let ids = Ids::default();
        let mut made: Vec<String> = Vec::new();
        for step in [0, 0, 1, 300, 0, 1_000_000, -5_000_000_000, 0, 10_000_000_000] {
            clock.advance(SignedDuration::from_nanos(step));
            made.extend((0..5_000).map(|_| ids.next(&ambient)));
        }
        assert!(made.is_sorted_by(|a, b| a < b));
        let first = uuid::Uuid::parse_str(&made[0]).unwrap();
        assert_eq!(first.get_version_num(), 7);
        assert_eq!(first.get_variant(), uuid::Variant::RFC4122);
        let (seconds, nanos) = first.get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos / 1_000_000), (u64::try_from(start.as_second()).unwrap(), 678));
    }
}
