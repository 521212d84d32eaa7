use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The part of a budget that one holder may have: a quarter.
const HOLDERS: usize = 4;

/// A limit on the bytes that a process keeps for its clients: request bodies while they are read, answers until they are
/// sent, and all other holders of a [`Lease`]. Cheap to clone; all clones are one budget.
///
/// A holder is an account or an address for which bytes are kept. One holder gets at most a quarter of the budget, so
/// that no single holder can use it up.
///
/// ```
/// use gatewright_base::Budget;
///
/// let budget = Budget::new(1_000);
/// let mut lease = budget.lease(Some("user:ada"));
/// lease.grow(200)?;
/// assert!(lease.grow(100).is_err(), "more than a quarter");
/// assert_eq!(budget.used(), 200);
/// drop(lease);
/// assert_eq!(budget.used(), 0);
/// # Ok::<(), gatewright_base::OverBudget>(())
/// ```
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    limit: usize,
    share: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    refused: u64,
    holders: HashMap<Arc<str>, usize>,
}

/// Bytes taken from a [`Budget`]. Dropping the lease gives them back.
pub struct Lease {
    budget: Budget,
    holder: Option<Arc<str>>,
    bytes: usize,
}

/// Why bytes are refused. None of them were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverBudget {
    /// The budget is used up.
    #[error("the memory budget of the server is used up")]
    Process,
    /// The holder has as much as one may have.
    #[error("the caller's share of the memory budget is used up")]
    Share,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, share: limit / HOLDERS, state: Mutex::default() }))
    }

    /// A lease without bytes yet. Without a `holder`, only the whole budget limits it.
    pub fn lease(&self, holder: Option<&str>) -> Lease {
        Lease { budget: self.clone(), holder: holder.map(Arc::from), bytes: 0 }
    }

    /// The most bytes that may be taken.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes that are taken at the moment.
    pub fn used(&self) -> usize {
        self.state().used
    }

    /// How often bytes were refused since the start.
    pub fn refused(&self) -> u64 {
        self.state().refused
    }

    fn take(&self, holder: Option<&Arc<str>>, bytes: usize) -> Result<(), OverBudget> {
        let mut state = self.state();
        let result = state.take(&self.0, holder, bytes);
        state.refused += u64::from(result.is_err());
        result
    }

    fn give_back(&self, holder: Option<&Arc<str>>, bytes: usize) {
        let mut state = self.state();
        state.used -= bytes;
        if let Some(holder) = holder
            && let Entry::Occupied(mut held) = state.holders.entry(holder.clone())
        {
            *held.get_mut() -= bytes;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, budget: &Inner, holder: Option<&Arc<str>>, bytes: usize) -> Result<(), OverBudget> {
        let used = self.used.checked_add(bytes).filter(|used| *used <= budget.limit).ok_or(OverBudget::Process)?;
        if let Some(holder) = holder {
            let held = self.holders.get(holder).copied().unwrap_or(0) + bytes;
            if held > budget.share {
                return Err(OverBudget::Share);
            }
            self.holders.insert(holder.clone(), held);
        }
        self.used = used;
        Ok(())
    }
}

impl Lease {
    /// Takes `bytes` more, or fails and takes nothing.
    pub fn grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes == 0 {
            return Ok(());
        }
        self.budget.take(self.holder.as_ref(), bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Bytes that this lease has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.holder.as_ref(), self.bytes);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limit", &self.0.limit).field("used", &self.used()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_gets_a_quarter_and_all_together_the_whole() {
        let budget = Budget::new(100);
        let mut leases: Vec<Lease> = ["a", "b", "c"].iter().map(|holder| budget.lease(Some(holder))).collect();
        for lease in &mut leases {
            lease.grow(25).unwrap();
            assert_eq!(lease.grow(1), Err(OverBudget::Share));
        }
        let mut second_of_a = budget.lease(Some("a"));
        assert_eq!(second_of_a.grow(1), Err(OverBudget::Share));
        let mut anonymous = budget.lease(None);
        anonymous.grow(25).unwrap();
        assert_eq!(budget.lease(Some("d")).grow(1), Err(OverBudget::Process));
        assert_eq!((budget.used(), budget.refused()), (100, 5));

        leases.remove(0);
        assert_eq!(budget.used(), 75);
        second_of_a.grow(25).unwrap();
        drop((leases, second_of_a, anonymous));
        assert_eq!(budget.used(), 0);
        assert!(budget.state().holders.is_empty(), "holders of nothing are forgotten");
    }

    #[test]
    fn a_refused_growth_takes_nothing_and_overflow_is_refused() {
        let budget = Budget::new(100);
        let mut lease = budget.lease(None);
        lease.grow(60).unwrap();
        assert_eq!(lease.grow(41), Err(OverBudget::Process));
        assert_eq!(lease.grow(usize::MAX), Err(OverBudget::Process));
        assert_eq!((lease.bytes(), budget.used()), (60, 60));
        lease.grow(40).unwrap();
    }

    #[test]
    fn many_threads_never_take_more_than_the_whole_and_give_all_back() {
        let budget = Budget::new(1_000);
        std::thread::scope(|scope| {
            for number in 0..8_u8 {
                let budget = budget.clone();
                scope.spawn(move || {
                    for round in 0..1_000_usize {
                        let mut lease = budget.lease(Some(if number % 2 == 0 { "even" } else { "odd" }));
                        let _taken_or_not = lease.grow(round % 200);
                        assert!(budget.used() <= 1_000);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
