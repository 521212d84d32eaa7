use gatewright_auth::password::HashingLoad;

use super::{Metrics, counter, gauge};

impl Metrics {
    /// Updates the numbers of password hashing.
    pub(crate) fn observe_passwords(&self, load: HashingLoad) {
        let recorder = &self.0.recorder;
        let computed = "Passwords hashed or compared";
        counter(recorder, "gatewright_password_hashing_total", computed).absolute(load.computed);
        let refused = "Sign-ins and registrations refused because too many waited for a hash";
        counter(recorder, "gatewright_password_hashing_refused_total", refused).absolute(load.refused);
        #[expect(clippy::cast_precision_loss, reason = "the queue has some dozens of places for each core")]
        let waiting = load.waiting as f64;
        gauge(recorder, "gatewright_password_hashing_waiting", "Requests that wait for a password hash").set(waiting);
    }
}
