//! Decisions of the limiters: how many a second, and how many bytes a key costs.

mod memory;
mod redis;

use std::time::Duration;

use tokio::runtime::Runtime;

/// Measures every store for `seconds` a case and prints it beside what a user would pick instead.
pub(crate) fn run(arguments: &[&str], runtime: &Runtime) -> anyhow::Result<()> {
    if let ["fill", subject, keys] = arguments {
        return memory::fill(subject, keys.parse()?);
    }
    let seconds: f64 = arguments.first().map_or(Ok(1.0), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    memory::run(time)?;
    runtime.block_on(redis::run(time))
}

/// The best of some rounds, in calls a second: other work on the machine only ever takes away.
struct Best(f64);

impl Best {
    fn offer(&mut self, calls: u64, time: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
        let rate = calls as f64 / time.as_secs_f64();
        self.0 = self.0.max(rate);
    }
}
