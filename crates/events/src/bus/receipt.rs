use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The receipt of a published event, on which a writer waits for streams with blocking delivery.
///
/// It is empty, and [`Receipt::wait`] returns at once, unless a stream of that table was opened with `slow=block` and
/// the broker allows it. Dropping a receipt means not waiting; the event is still delivered.
#[derive(Debug, Default)]
#[must_use = "where streams may ask for blocking delivery, the writer's answer waits for them"]
pub struct Receipt {
    pending: Option<(oneshot::Receiver<()>, Duration)>,
}

impl Receipt {
    /// Nothing to wait for.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether there is nothing to wait for.
    pub fn is_none(&self) -> bool {
        self.pending.is_none()
    }

    /// Waits until every blocking stream has room for the event, at most for the broker's block timeout. Returns
    /// whether all had room. Streams without room have lost their oldest events.
    pub async fn wait(self) -> bool {
        match self.pending {
            None => true,
            // No value is sent: the message is that the last copy of the sender was dropped.
            Some((released, limit)) => tokio::time::timeout(limit, released).await.is_ok(),
        }
    }
}

/// The receipts of one operation. A clone is moved into the transaction's `after_commit`, which adds the receipts; the
/// caller waits on the original after the commit.
#[derive(Debug, Clone, Default)]
pub struct Receipts(Arc<Mutex<Vec<Receipt>>>);

impl Receipts {
    /// Adds one. An empty one costs nothing.
    pub fn add(&self, receipt: Receipt) {
        if !receipt.is_none() {
            self.0.lock().push(receipt);
        }
    }

    /// Waits for all added receipts, at most for the block timeout. Returns whether every stream had room.
    pub async fn wait(self) -> bool {
        let receipts = std::mem::take(&mut *self.0.lock());
        join_all(receipts.into_iter().map(Receipt::wait)).await.into_iter().all(|had_room| had_room)
    }
}

/// A [`Receipt`] waits until every copy of it is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Hold(Arc<oneshot::Sender<()>>);

impl Hold {
    /// Whether the writer stopped waiting.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }

    /// A hold, and the receipt that waits for it for at most `limit`.
    pub(crate) fn new(limit: Duration) -> (Self, Receipt) {
        let (sender, receiver) = oneshot::channel();
        let receipt = Receipt { pending: Some((receiver, limit)) };
        (Self(Arc::new(sender)), receipt)
    }
}

/// The tables that have a blocking stream. A publisher needs to know nothing else about streams.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    seats: AtomicUsize,
    tables: Mutex<HashMap<Arc<str>, Waits>>,
}

#[derive(Debug)]
struct Waits {
    seats: usize,
    limit: Duration,
}

impl Blocking {
    /// How long a writer to any of `tables` waits at most; `None` if none of them has a blocking stream.
    pub(crate) fn limit<'a>(&self, tables: impl IntoIterator<Item = &'a str>) -> Option<Duration> {
        if self.seats.load(Ordering::Acquire) == 0 {
            return None;
        }
        let blocking = self.tables.lock();
        tables.into_iter().filter_map(|table| blocking.get(table)).map(|waits| waits.limit).max()
    }

    /// Notes a blocking stream on `table` until the seat is dropped.
    pub(crate) fn enter(self: &Arc<Self>, table: Arc<str>, limit: Duration) -> BlockingSeat {
        let mut tables = self.tables.lock();
        let waits = tables.entry(table.clone()).or_insert(Waits { seats: 0, limit });
        waits.seats += 1;
        waits.limit = waits.limit.max(limit);
        self.seats.fetch_add(1, Ordering::Release);
        BlockingSeat { blocking: self.clone(), table }
    }
}

/// One blocking stream's entry in [`Blocking`].
#[derive(Debug)]
pub(crate) struct BlockingSeat {
    blocking: Arc<Blocking>,
    table: Arc<str>,
}

impl Drop for BlockingSeat {
    fn drop(&mut self) {
        let mut tables = self.blocking.tables.lock();
        if let Some(waits) = tables.get_mut(&self.table) {
            waits.seats -= 1;
            if waits.seats == 0 {
                tables.remove(&self.table);
            }
        }
        self.blocking.seats.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_with_a_blocking_stream_are_waited_for() {
        let blocking = Arc::new(Blocking::default());
        let limit = Duration::from_secs(5);
        let seats = [blocking.enter("posts".into(), limit), blocking.enter("posts".into(), limit)];
        assert_eq!(blocking.limit(["notes", "posts"]), Some(limit));
        assert_eq!(blocking.limit(["notes"]), None);
        let [first, second] = seats;
        drop(first);
        assert_eq!(blocking.limit(["posts"]), Some(limit));
        drop(second);
        assert_eq!(blocking.limit(["posts"]), None);
        assert!(blocking.tables.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_receipt_waits_for_the_last_hold_and_no_longer_than_its_limit() {
        let (hold, receipt) = Hold::new(Duration::from_secs(5));
        let copy = hold.clone();
        let waiting = tokio::spawn(receipt.wait());
        drop(hold);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(copy);
        assert!(waiting.await.unwrap());

        let (hold, receipt) = Hold::new(Duration::from_secs(5));
        let started = tokio::time::Instant::now();
        assert!(!receipt.wait().await);
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        assert!(hold.is_abandoned());
    }

    #[tokio::test(start_paused = true)]
    async fn the_receipts_of_an_operation_are_waited_for_together() {
        assert!(Receipts::default().wait().await);
        let receipts = Receipts::default();
        receipts.clone().add(Receipt::none());
        let holds = [5, 5, 3].map(|seconds| {
            let (hold, receipt) = Hold::new(Duration::from_secs(seconds));
            receipts.clone().add(receipt);
            hold
        });
        let started = tokio::time::Instant::now();
        assert!(!receipts.wait().await);
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        drop(holds);
    }
}
