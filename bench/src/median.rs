use std::time::Duration;

/// The middle one of `times`, which get sorted. There must be at least one.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
