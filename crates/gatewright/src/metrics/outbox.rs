use gatewright_events::outbox::Outbox;
use metrics::{Key, Label, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{METADATA, Metrics};

const STAGED: &str = "gatewright_outbox_staged_total";
const REFUSED: &str = "gatewright_outbox_refused_total";
const BYTES: &str = "gatewright_outbox_bytes";
const MAX_BYTES: &str = "gatewright_outbox_max_bytes";
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
        recorder.register_counter(&Key::from_name(REFUSED), &METADATA).absolute(counts.refused);
        if let Some(most) = outbox.max_bytes() {
            recorder.register_gauge(&Key::from_name(BYTES), &METADATA).set(float(outbox.bytes().unwrap_or(0)));
            recorder.register_gauge(&Key::from_name(MAX_BYTES), &METADATA).set(float(most));
        }
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
                recorder.register_gauge(&Key::from_name(OLDEST), &METADATA).set(float(oldest.unsigned_abs()));
                for consumer in counts.consumers.keys() {
                    let lag = lag.get(consumer).copied().unwrap_or(0);
                    recorder.register_gauge(&of(LAG, consumer), &METADATA).set(float(lag.unsigned_abs()));
                }
            }
        }
    }
}

pub(super) fn describe(recorder: &PrometheusRecorder) {
    for (name, about) in [
        (STAGED, "Events staged and committed by this process"),
        (REFUSED, "Writes that were refused because the outbox is full"),
        (DELIVERED, "Deliveries whose handler succeeded"),
        (FAILED, "Deliveries whose handler failed, each time"),
        (DEAD, "Deliveries that failed for the last time"),
        (TAKEN_OVER, "Deliveries that another replica took over"),
    ] {
        recorder.describe_counter(name.into(), None, about.into());
    }
    let lag = "For how long a consumer's oldest pending event has been staged";
    recorder.describe_gauge(LAG.into(), None, lag.into());
    recorder.describe_gauge(BYTES.into(), None, "The bytes of all events in the outbox, as last counted".into());
    recorder.describe_gauge(MAX_BYTES.into(), None, "The limit of the bytes of all events in the outbox".into());
    recorder.describe_gauge(OLDEST.into(), None, "For how long the oldest pending event has been staged".into());
}

fn of(name: &'static str, consumer: &str) -> Key {
    Key::from_parts(name, vec![Label::new("consumer", consumer.to_owned())])
}

#[expect(clippy::cast_precision_loss, reason = "nothing is 2^52 seconds old, and bytes may be rounded")]
fn float(number: u64) -> f64 {
    number as f64
}
