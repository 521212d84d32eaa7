use gatewright_events::fanout::FanoutStatus;

use super::{Metrics, counter, gauge};

impl Metrics {
    /// Updates the numbers of fan-out. Without fan-out there are none.
    pub(crate) fn observe_fanout(&self, fanout: &FanoutStatus) {
        let recorder = &self.0.recorder;
        let up =
            gauge(recorder, "gatewright_fanout_up", "Whether this replica hears the others and tells them, 1 or 0");
        up.set(f64::from(u8::from(fanout.is_up())));
        let counts = fanout.counts();
        for (name, value, about) in [
            ("gatewright_fanout_sent_total", counts.sent, "Events told to the other replicas"),
            ("gatewright_fanout_lost_total", counts.lost, "Events that could not be told to the other replicas"),
            ("gatewright_fanout_received_total", counts.received, "Events that other replicas told"),
            ("gatewright_fanout_missed_total", counts.missed, "Events of other replicas that never came"),
            ("gatewright_fanout_repeated_total", counts.repeated, "Events of other replicas that came again"),
            ("gatewright_fanout_malformed_total", counts.malformed, "Messages that were no events"),
            ("gatewright_fanout_outages_total", counts.outages, "How often the backend was lost"),
        ] {
            counter(recorder, name, about).absolute(value);
        }
    }
}
