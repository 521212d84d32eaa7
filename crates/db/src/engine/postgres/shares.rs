use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Share};

/// Shares that are looked at before those nobody uses are forgotten.
const KEPT: usize = 1_024;

/// Keeps one share from taking all connections.
pub(super) struct Shares {
    /// The most connections that one share takes.
    most: usize,
    shares: Mutex<HashMap<Share, Weak<Semaphore>>>,
}

impl Shares {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), shares: Mutex::default() }
    }

    /// Waits for the share's next turn, which lasts until the permit is dropped.
    pub(super) async fn enter(&self, share: Share) -> Result<OwnedSemaphorePermit, Error> {
        self.of(share).acquire_owned().await.map_err(|_| Error::Closed)
    }

    fn of(&self, share: Share) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
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
