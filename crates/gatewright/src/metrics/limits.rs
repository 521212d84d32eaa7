use super::{Metrics, gauge};
use crate::app::limits::LimitsStatus;

impl Metrics {
    /// Updates whether the store of limits answers.
    pub(crate) fn observe_limits(&self, limits: &LimitsStatus) {
        let about = "Whether the store of limits answers, 1 or 0";
        let up = gauge(&self.0.recorder, "gatewright_limiter_store_up", about);
        up.set(f64::from(u8::from(limits.is_up())));
    }
}
