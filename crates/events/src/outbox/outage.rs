use std::collections::BTreeSet;

use gatewright_db::Error;
use parking_lot::Mutex;

/// Says once that a relay cannot work, and once that it can again, however many of its tasks fail how often.
#[derive(Default)]
pub(super) struct Outage(Mutex<BTreeSet<String>>);

impl Outage {
    /// Notes how `task` fared. Returns what it made.
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
