use std::time::Duration;

use gatewright_auth::Auth;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Removes expired rows from the tables of accounts, for as long as it lives. Every replica does so.
pub(super) struct Housekeeper(AbortHandle);

const PERIOD: Duration = Duration::from_mins(1);

impl Housekeeper {
    pub(super) fn start(auth: Auth) -> Self {
        let keep = async move {
            let mut tick = interval(PERIOD);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let removed = auth.sweep().await;
                if removed > 0 {
                    tracing::debug!(removed, "rows that have ended were removed");
                }
            }
        };
        Self(tokio::spawn(keep).abort_handle())
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
