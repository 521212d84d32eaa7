use gatewright_events::outbox::Outbox;
use metrics::{Key, Label, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{METADATA, Metrics};

const STAGED: &str = "gatewright_outbox_staged_total";
const DELIVERED: &str = "gatewright_outbox_delivered_total";
const FAILED: &str = "gatewright_outbox_failed_total";
const DEAD: &str = "gatewright_outbox_dead_total";
const TAKEN_OVER: &str = "gatewright_outbox_taken_over_total";
const LAG: &str = "gatewright_outbox_lag_seconds";
const OLDEST: &str = "gatewright_outbox_oldest_pending_seconds";

impl Metrics {
    /// Updates the outbox's numbers. The consumers' names are labels: there are as many as declared consumers.
    pub(crate) async fn observe_outbox(&self, outbox: &Outbox) {
        let recorder = &self.0.recorder;
        let counts = outbox.counts();
        recorder.register_counter(&Key::from_name(STAGED), &METADATA).absolute(counts.staged);
        for (consumer, counts) in &counts.consumers {
            for (name, value) in [
                (DELIVERED, counts.delivered),
                (FAILED, counts.failed),
                (DEAD, counts.dead),
                (TAKEN_OVER, counts.taken_over),
            ] {
                recorder.register_counter(&of(name, consumer), &METADATA).absolute(value);
            }
        }
        if !self.0.outbox.is_due() {
            return;
        }
        match outbox.lag_seconds().await {
            Err(error) => tracing::debug!(%error, "the outbox's lag cannot be read"),
            Ok(lag) => {
                let oldest = lag.values().max().copied().unwrap_or(0);
                recorder.register_gauge(&Key::from_name(OLDEST), &METADATA).set(float(oldest));
                for consumer in counts.consumers.keys() {
                    let lag = lag.get(consumer).copied().unwrap_or(0);
                    recorder.register_gauge(&of(LAG, consumer), &METADATA).set(float(lag));
                }
            }
        }
    }
}

pub(super) fn describe(recorder: &PrometheusRecorder) {
    for (name, about) in [
        (STAGED, "Events staged and committed by this process"),
        (DELIVERED, "Deliveries whose handler succeeded"),
        (FAILED, "Deliveries whose handler failed, each time"),
        (DEAD, "Deliveries that failed for the last time"),
        (TAKEN_OVER, "Deliveries that another replica took over"),
    ] {
        recorder.describe_counter(name.into(), None, about.into());
    }
    let lag = "For how long a consumer's oldest pending event has been staged";
    recorder.describe_gauge(LAG.into(), None, lag.into());
    recorder.describe_gauge(OLDEST.into(), None, "For how long the oldest pending event has been staged".into());
}

fn of(name: &'static str, consumer: &str) -> Key {
    Key::from_parts(name, vec![Label::new("consumer", consumer.to_owned())])
}

#[expect(clippy::cast_precision_loss, reason = "nothing is 2^52 seconds old")]
fn float(seconds: i64) -> f64 {
    seconds as f64
}
