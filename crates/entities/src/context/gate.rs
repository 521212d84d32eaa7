//! Limits how many lists run at a time for one caller and one address.
//!
//! A list occupies one of the database's readers until it ends. Readers are shared fairly between callers
//! ([`Lane::Lists`](gatewright_db::Lane)); the gate limits the queue of each caller.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use gatewright_base::{Identity, Subject};
use gatewright_db::Share;
use gatewright_http::{ClientAddr, Counted, Network};
use parking_lot::Mutex;

use crate::call::Call;
use crate::error::Error;

/// The most lists at a time. A further one is refused with 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLimits {
    /// Of one account.
    pub per_caller: NonZeroUsize,
    /// Of one address; IPv6 addresses count by the networks of [`Counted::Lists`].
    pub per_address: NonZeroUsize,
}

impl Default for ListLimits {
    fn default() -> Self {
        let limit = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self { per_caller: limit(256), per_address: limit(1_024) }
    }
}

/// Counts the running lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    limits: ListLimits,
    running: Arc<Mutex<HashMap<Key, usize>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Caller(Subject),
    Network(Network),
}

/// An admitted list. It stops counting when this is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    gate: Gate,
    keys: Vec<Key>,
}

impl Gate {
    pub(crate) fn new(limits: ListLimits) -> Self {
        Self { limits, running: Arc::default() }
    }

    pub(crate) fn enter(&self, call: &Call) -> Result<Entered, Error> {
        let caller = subject(call).map(|subject| (Key::Caller(subject.clone()), self.limits.per_caller.get()));
        let networks = Counted::Lists.networks(ClientAddr::new(call.address)).into_iter();
        let limits = networks
            .map(|share| (Key::Network(share.network), self.limits.per_address.get().saturating_mul(share.times)));
        let mut entered = Entered { gate: self.clone(), keys: Vec::with_capacity(3) };
        let mut running = self.running.lock();
        for (key, limit) in caller.into_iter().chain(limits) {
            let count = running.entry(key.clone()).or_default();
            if *count >= limit {
                // Dropping `entered` undoes what was counted already, and needs the lock.
                drop(running);
                return Err(Error::TooManyLists);
            }
            *count += 1;
            entered.keys.push(key);
        }
        drop(running);
        Ok(entered)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut running = self.gate.running.lock();
        for key in self.keys.drain(..) {
            if let Some(count) = running.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    running.remove(&key);
                }
            }
        }
    }
}

/// The share of the database's readers and writers that a call counts against: the caller's, or that of the network of anonymous callers.
pub fn share(call: &Call) -> Share {
    match subject(call) {
        Some(subject) => Share::of(subject),
        None => {
            let networks = Counted::Turns.networks(ClientAddr::new(call.address));
            Share::of(&networks.into_iter().last().map(|share| share.network))
        }
    }
}

pub(crate) fn subject(call: &Call) -> Option<&Subject> {
    match &call.identity {
        Identity::Known(principal) => Some(&principal.subject),
        Identity::Anonymous | Identity::Pending(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(address: &str) -> Call {
        Call::default().from_address(address.parse().ok())
    }

    #[test]
    fn an_address_has_a_limit_and_finished_lists_free_it() {
        let two = NonZeroUsize::new(2).unwrap();
        let gate = Gate::new(ListLimits { per_caller: NonZeroUsize::MIN, per_address: two });
        let first = gate.enter(&call("2001:db8::1")).unwrap();
        let _second = gate.enter(&call("2001:db8::2")).unwrap();
        assert!(matches!(gate.enter(&call("2001:db8::3")), Err(Error::TooManyLists)), "one /64 is one client");
        let _other = gate.enter(&call("192.0.2.1")).unwrap();
        drop(first);
        let _third = gate.enter(&call("2001:db8::3")).unwrap();
        assert_eq!(share(&call("2001:db8::1")), share(&call("2001:db8::2")));
        assert_ne!(share(&call("2001:db8::1")), share(&call("192.0.2.1")));
    }

    #[test]
    fn a_48_has_eight_times_the_lists_of_a_64_and_one_turn() {
        let gate = Gate::new(ListLimits { per_caller: NonZeroUsize::MIN, per_address: NonZeroUsize::new(2).unwrap() });
        let calls = (0..100).map(|number| call(&format!("2001:db8:1:{number:x}::1")));
        let entered: Vec<_> = calls.filter_map(|call| gate.enter(&call).ok()).collect();
        assert_eq!(entered.len(), 16);
        assert!(gate.enter(&call("2001:db8:2::1")).is_ok());
        assert_eq!(share(&call("2001:db8:1::1")), share(&call("2001:db8:1:ffff::1")));
        assert_ne!(share(&call("2001:db8:1::1")), share(&call("2001:db8:2::1")));
    }

    #[test]
    fn callers_without_running_lists_are_removed() {
        let gate = Gate::default();
        for number in 0..100 {
            drop(gate.enter(&call(&format!("192.0.2.{number}"))).unwrap());
        }
        assert!(gate.running.lock().is_empty());
    }
}
