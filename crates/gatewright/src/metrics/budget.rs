use gatewright_base::Budget;

use super::{Metrics, counter, gauge};

impl Metrics {
    /// Updates the numbers of the memory budget.
    pub(crate) fn observe_budget(&self, budget: &Budget) {
        let recorder = &self.0.recorder;
        for (name, bytes, about) in [
            ("gatewright_memory_budget_bytes", budget.limit(), "Bytes that bodies and answers may take together"),
            ("gatewright_memory_budget_used_bytes", budget.used(), "Bytes that bodies and answers take"),
        ] {
            #[expect(clippy::cast_precision_loss, reason = "no process has 2^52 bytes")]
            gauge(recorder, name, about).set(bytes as f64);
        }
        let name = "gatewright_memory_budget_refused_total";
        counter(recorder, name, "Bodies and answers refused because the memory budget was used up")
            .absolute(budget.refused());
    }
}
