use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
#[cfg(feature = "shares")]
use std::pin::pin;
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
    /// Bytes were given back.
    #[cfg(feature = "shares")]
    freed: tokio::sync::Notify,
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
        Self(Arc::new(Inner {
            limit,
            share: limit / HOLDERS,
            state: Mutex::default(),
            #[cfg(feature = "shares")]
            freed: tokio::sync::Notify::new(),
        }))
    }

    /// A budget that refuses nothing.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
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

    /// Waits until a holder could take `bytes` ([undivided](Lease::grow_undivided)). Others may take them first, so try
    /// again in a loop.
    #[cfg(feature = "shares")]
    pub async fn room(&self, holder: Option<&str>, bytes: usize) {
        let holder = holder.map(Arc::from);
        loop {
            let mut freed = pin!(self.0.freed.notified());
            // From here on, no bytes are given back unnoticed.
            freed.as_mut().enable();
            if self.state().check(&self.0, holder.as_ref(), bytes.min(self.most(holder.as_ref()))).is_ok() {
                return;
            }
            freed.await;
        }
    }

    /// The most bytes that a holder may have.
    fn most(&self, holder: Option<&Arc<str>>) -> usize {
        if holder.is_some() { self.0.share } else { self.0.limit }
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
        drop(state);
        #[cfg(feature = "shares")]
        self.0.freed.notify_waiters();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What would be taken in all if `bytes` more were, and what of that by the holder.
    fn check(
        &self,
        budget: &Inner,
        holder: Option<&Arc<str>>,
        bytes: usize,
    ) -> Result<(usize, Option<usize>), OverBudget> {
        let used = self.used.checked_add(bytes).filter(|used| *used <= budget.limit).ok_or(OverBudget::Process)?;
        let held = holder.map(|holder| self.holders.get(holder).copied().unwrap_or(0) + bytes);
        if held.is_some_and(|held| held > budget.share) { Err(OverBudget::Share) } else { Ok((used, held)) }
    }

    fn take(&mut self, budget: &Inner, holder: Option<&Arc<str>>, bytes: usize) -> Result<(), OverBudget> {
        let (used, held) = self.check(budget, holder, bytes)?;
        if let (Some(holder), Some(held)) = (holder, held) {
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

    /// Takes `bytes` more of something that cannot be divided: what is larger than its holder's share counts as all of it, so
    /// that it passes when the holder has nothing else.
    pub fn grow_undivided(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.grow(bytes.min(self.budget.most(self.holder.as_ref())))
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

    #[cfg(feature = "shares")]
    #[tokio::test]
    async fn a_holder_without_room_waits_for_it_and_something_larger_than_a_share_passes_alone() {
        let budget = Budget::new(100);
        let mut first = budget.lease(Some("a"));
        first.grow_undivided(1_000).unwrap();
        assert_eq!(first.bytes(), 25);
        assert_eq!(budget.lease(Some("a")).grow_undivided(1_000), Err(OverBudget::Share));
        budget.lease(Some("b")).grow_undivided(1_000).unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.room(Some("a"), 1_000).await }
        });
        budget.room(Some("b"), 1_000).await;
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
        assert_eq!(budget.refused(), 1, "waiting is no refusal");
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
