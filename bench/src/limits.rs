//! Decisions of the limiters: the rate per second, and the memory for each key.

mod memory;
mod redis;

use std::time::Duration;

use tokio::runtime::Runtime;

/// Measures every store for `seconds` per case, and prints it with the alternative that a user would choose.
pub(crate) fn run(arguments: &[&str], runtime: &Runtime) -> anyhow::Result<()> {
    if let ["fill", subject, keys] = arguments {
        return memory::fill(subject, keys.parse()?);
    }
    let seconds: f64 = arguments.first().map_or(Ok(1.0), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    memory::run(time)?;
    runtime.block_on(redis::run(time))
}

/// The best of some rounds, in calls per second: other load on the machine only lowers a result.
struct Best(f64);

impl Best {
    fn offer(&mut self, calls: u64, time: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
        let rate = calls as f64 / time.as_secs_f64();
        self.0 = self.0.max(rate);
    }
}
