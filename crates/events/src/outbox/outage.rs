use std::collections::BTreeSet;

use gatewright_db::Error;
use parking_lot::Mutex;

/// Logs once that a relay cannot work, and once that it works again, independent of how many of its tasks fail.
#[derive(Default)]
pub(super) struct Outage(Mutex<BTreeSet<String>>);

impl Outage {
    /// Notes the result of `task`, and returns its value.
    pub(super) fn note<T>(&self, task: &str, result: Result<T, Error>) -> Option<T> {
        let mut failing = self.0.lock();
        match result {
            Ok(value) => {
                if failing.remove(task) && failing.is_empty() {
                    tracing::info!("the outbox relay works again");
                }
                Some(value)
            }
            Err(error) => {
                if failing.is_empty() {
                    tracing::error!(task, %error, "the outbox relay failed; retrying");
                }
                failing.insert(task.to_owned());
                None
            }
        }
    }
}
