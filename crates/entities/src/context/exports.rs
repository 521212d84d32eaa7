//! Limits how many exports run at a time: each has a connection of the database until its client has read everything.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Subject;
use gatewright_http::{ClientAddr, Counted, Network};
use parking_lot::Mutex;

use super::gate;
use crate::call::Call;
use crate::error::Error;

/// The most exports at a time, and their time. A further one is refused with 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportLimits {
    /// Of one account, or of one address without one.
    pub per_caller: NonZeroUsize,
    /// Of all callers.
    pub in_all: NonZeroUsize,
    /// How long one may take.
    pub time: Duration,
}

impl Default for ExportLimits {
    fn default() -> Self {
        let limit = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self { per_caller: limit(2), in_all: limit(8), time: Duration::from_hours(1) }
    }
}

/// Counts the running exports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exports {
    limits: ExportLimits,
    running: Arc<Mutex<HashMap<Key, usize>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Caller(Subject),
    Network(Network),
    /// Of no known address.
    Nobody,
}

/// An admitted export. It stops counting when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    exports: Exports,
    key: Key,
}

impl Exports {
    pub(crate) fn new(limits: ExportLimits) -> Self {
        Self { limits, running: Arc::default() }
    }

    pub(crate) fn time(&self) -> Duration {
        self.limits.time
    }

    pub(crate) fn enter(&self, call: &Call) -> Result<Running, Error> {
        let key = match gate::subject(call) {
            Some(subject) => Key::Caller(subject.clone()),
            None => {
                let networks = Counted::Lists.networks(ClientAddr::new(call.address));
                networks.into_iter().next().map_or(Key::Nobody, |share| Key::Network(share.network))
            }
        };
        let mut running = self.running.lock();
        let own = running.get(&key).copied().unwrap_or_default();
        if own >= self.limits.per_caller.get() || running.values().sum::<usize>() >= self.limits.in_all.get() {
            return Err(Error::TooManyExports);
        }
        running.insert(key.clone(), own + 1);
        drop(running);
        Ok(Running { exports: self.clone(), key })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.exports.running.lock();
        if let Some(count) = running.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.key);
            }
        }
    }
}
