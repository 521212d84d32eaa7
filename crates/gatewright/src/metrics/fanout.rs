use gatewright_events::fanout::FanoutStatus;

use super::{Metrics, counter, gauge};

impl Metrics {
    /// Updates the numbers of fan-out. Without fan-out there are none.
    pub(crate) fn observe_fanout(&self, fanout: &FanoutStatus) {
        let recorder = &self.0.recorder;
        let up =
            gauge(recorder, "gatewright_fanout_up", "Whether this replica exchanges events with the others, 1 or 0");
        up.set(f64::from(u8::from(fanout.is_up())));
        let counts = fanout.counts();
        for (name, value, about) in [
            ("gatewright_fanout_sent_total", counts.sent, "Events sent to the other replicas"),
            ("gatewright_fanout_lost_total", counts.lost, "Events that could not be sent to the other replicas"),
            ("gatewright_fanout_received_total", counts.received, "Events received from other replicas"),
            ("gatewright_fanout_missed_total", counts.missed, "Events of other replicas that were lost"),
            ("gatewright_fanout_repeated_total", counts.repeated, "Events of other replicas that came twice"),
            ("gatewright_fanout_malformed_total", counts.malformed, "Messages that were not events"),
            ("gatewright_fanout_outages_total", counts.outages, "How often the connection to the backend was lost"),
        ] {
            counter(recorder, name, about).absolute(value);
        }
    }
}
