use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Share};

/// Shares that are looked at before those nobody uses are forgotten.
const KEPT: usize = 1_024;

/// Keeps one share from taking all connections, and all of them from taking the last one.
pub(super) struct Shares {
    /// The most connections that one share takes.
    most: usize,
    each: Mutex<HashMap<Share, Weak<Semaphore>>>,
    together: Arc<Semaphore>,
}

/// A share's turn. It lasts until this is dropped.
pub(super) struct Turn {
    _own: OwnedSemaphorePermit,
    _together: OwnedSemaphorePermit,
}

impl Shares {
    /// One share takes `most` connections, all of them take `together`.
    pub(super) fn new(most: usize, together: usize) -> Self {
        let together = Arc::new(Semaphore::new(together.max(1)));
        Self { most: most.max(1), each: Mutex::default(), together }
    }

    /// Waits for the share's next turn. First among its own, so that it has only so many in the line of all.
    pub(super) async fn enter(&self, share: Share) -> Result<Turn, Error> {
        let own = self.of(share).acquire_owned().await.map_err(|_| Error::Closed)?;
        let together = self.together.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        Ok(Turn { _own: own, _together: together })
    }

    fn of(&self, share: Share) -> Arc<Semaphore> {
        let mut shares = self.each.lock();
        if let Some(used) = shares.get(&share).and_then(Weak::upgrade) {
            return used;
        }
        if shares.len() >= KEPT {
            shares.retain(|_, used| used.strong_count() > 0);
        }
        let fresh = Arc::new(Semaphore::new(self.most));
        shares.insert(share, Arc::downgrade(&fresh));
        fresh
    }
}
