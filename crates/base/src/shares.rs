use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of shares at which unused ones are removed.
const KEPT: usize = 1_024;

/// Limits how many of something each caller can use at the same time, such as each caller's requests to a slow server.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let fetches = gatewright_base::Shares::new(2);
/// let turn = fetches.take("ann").await;
/// // Of Ann's, two are under way at a time; a third one would wait for one of them. Bob's are his own.
/// let (second, bobs) = (fetches.take("ann").await, fetches.take("bob").await);
/// # drop((turn, second, bobs));
/// # });
/// ```
#[derive(Debug)]
pub struct Shares<K> {
    most: usize,
    /// For all shares together.
    together: Option<Arc<Semaphore>>,
    /// A turn keeps its share alive, and so does every caller that waits for one.
    each: Mutex<HashMap<K, Weak<Semaphore>>>,
}

/// One of a share. It lasts until this is dropped.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Turn {
    _own: OwnedSemaphorePermit,
    _together: Option<OwnedSemaphorePermit>,
}

impl<K: Eq + Hash> Shares<K> {
    /// Each has `most` turns at a time, at least 1.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), together: None, each: Mutex::default() }
    }

    /// Each has `most` turns at a time, and all shares together have `together`, each at least 1.
    #[must_use]
    pub fn within(most: usize, together: usize) -> Self {
        Self { together: Some(Arc::new(Semaphore::new(together.max(1)))), ..Self::new(most) }
    }

    /// Waits for the next turn of the share of `whose`. Waiting callers of a share are served in order. They wait within their
    /// share first, so that one share takes only a limited part of the common queue.
    ///
    /// # Panics
    /// Never: a share exists as long as a caller waits for it.
    pub async fn take(&self, whose: K) -> Turn {
        let own = self.of(whose).acquire_owned().await.expect("a share is never closed");
        let together = match self.together.clone() {
            Some(together) => Some(together.acquire_owned().await.expect("nobody closes it")),
            None => None,
        };
        Turn { _own: own, _together: together }
    }

    /// A turn of the share of `whose`; `None` if there is none now.
    pub fn try_take(&self, whose: K) -> Option<Turn> {
        let own = self.of(whose).try_acquire_owned().ok()?;
        let together = match self.together.clone() {
            Some(together) => Some(together.try_acquire_owned().ok()?),
            None => None,
        };
        Some(Turn { _own: own, _together: together })
    }

    fn of(&self, whose: K) -> Arc<Semaphore> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = each.get(&whose).and_then(Weak::upgrade) {
            return used;
        }
        if each.len() >= KEPT {
            each.retain(|_, used| used.strong_count() > 0);
        }
        let fresh = Arc::new(Semaphore::new(self.most));
        each.insert(whose, Arc::downgrade(&fresh));
        fresh
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The next turn if it is free, without waiting.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn each_share_has_its_own_limit() {
        let shares = Shares::new(2);
        let anns = [now(shares.take("ann")).unwrap(), now(shares.take("ann")).unwrap()];
        assert!(now(shares.take("ann")).is_none());
        let bobs = now(shares.take("bob")).unwrap();
        drop(anns);
        let (again, further) = (now(shares.take("ann")), now(shares.take("ann")));
        assert!(again.is_some() && further.is_some());
        assert!(now(Shares::new(0).take("ann")).is_some());
        drop(bobs);
    }

    #[test]
    fn all_shares_together_have_a_limit() {
        let shares = Shares::within(1, 2);
        let (anns, bobs) = (now(shares.take("ann")).unwrap(), shares.try_take("bob").unwrap());
        assert!(now(shares.take("cleo")).is_none() && shares.try_take("cleo").is_none());
        drop(anns);
        let cleos = shares.try_take("cleo").unwrap();
        drop(bobs);
        assert!(shares.try_take("cleo").is_none(), "she has one");
        assert!(now(shares.take("ann")).is_some());
        drop(cleos);
        assert!(now(Shares::within(1, 0).take("ann")).is_some());
    }

    #[test]
    fn a_share_is_removed_only_when_unused() {
        let shares = Shares::new(1);
        let held = now(shares.take(0)).unwrap();
        for other in 1..10 * KEPT {
            drop(now(shares.take(other)));
        }
        assert!(shares.each.lock().unwrap().len() <= KEPT);
        assert!(now(shares.take(0)).is_none(), "it is the same share");
        drop(held);
        assert!(now(shares.take(0)).is_some());
    }
}
