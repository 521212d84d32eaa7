use std::time::Duration;

/// The median of `times`, which this sorts. There must be at least one.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
