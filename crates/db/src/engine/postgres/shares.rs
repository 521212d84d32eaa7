use std::sync::Arc;

use gatewright_base::{Shares, Turn};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Share};

/// Keeps one share from taking all connections, and all of them from taking the last one.
pub(super) struct ConnectionShares {
    each: Shares<Share>,
    together: Arc<Semaphore>,
}

/// A share's turn to use a connection. It lasts until this is dropped.
pub(super) struct ConnectionTurn {
    _own: Turn,
    _together: OwnedSemaphorePermit,
}

impl ConnectionShares {
    /// One share has at most `most` connections, all shares together at most `together`.
    pub(super) fn new(most: usize, together: usize) -> Self {
        Self { each: Shares::new(most), together: Arc::new(Semaphore::new(together.max(1))) }
    }

    /// Waits for the share's next turn. It waits within its share first, so that one share takes only a limited part of
    /// the common queue.
    pub(super) async fn enter(&self, share: Share) -> Result<ConnectionTurn, Error> {
        let own = self.each.take(share).await;
        let together = self.together.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        Ok(ConnectionTurn { _own: own, _together: together })
    }
}
