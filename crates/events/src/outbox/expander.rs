use std::sync::Arc;
use std::time::Duration;

use gatewright_db::Error;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use super::context::Context;
use super::stage::Wakeup;
use super::transition::earlier;

/// Rows read in one statement.
const PAGE: usize = 1_000;
/// How far back a search for new rows goes: a transaction that began earlier than others may commit later.
const OVERLAP: Duration = Duration::from_secs(5);

/// Creates the deliveries of rows.
///
/// Rows that this process staged are known by their ids. All others are found by reading the pending rows: the newest
/// ones when another replica sends a notice, and all of them, page by page, one page in every poll interval (and the
/// next one at once while rows need deliveries).
pub(super) struct Expander {
    context: Arc<Context>,
    wakers: Vec<Arc<Notify>>,
    /// Where the look through all pending rows has got to.
    cursor: Cursor,
}

#[derive(Clone)]
struct Cursor {
    created_at: Timestamp,
    id: String,
}

impl Cursor {
    fn at(created_at: Timestamp) -> Self {
        Self { created_at, id: String::new() }
    }
}

impl Expander {
    pub(super) fn new(context: Arc<Context>, wakers: Vec<Arc<Notify>>) -> Self {
        Self { context, wakers, cursor: Cursor::at(Timestamp::UNIX_EPOCH) }
    }

    pub(super) async fn run(mut self) {
        if self.wakers.is_empty() {
            return;
        }
        let context = self.context.clone();
        let mut poll = tokio::time::interval(context.outbox.0.options.poll_interval);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wakeup = tokio::select! {
                biased;
                () = context.stop.cancelled() => return,
                _ = poll.tick() => None,
                wakeup = context.outbox.0.staged.wakeup() => Some(wakeup),
            };
            let worked = match &wakeup {
                Some(wakeup) => self.take(wakeup).await,
                None => self.sweep().await,
            };
            if context.outage.note("expand", worked).is_none()
                && let Some(Wakeup { ids, .. }) = wakeup
                && !ids.is_empty()
            {
                // The next sweep finds them; it begins with the newest.
                self.cursor = Cursor::at(earlier(context.outbox.now(), OVERLAP));
            }
        }
    }

    async fn take(&mut self, wakeup: &Wakeup) -> Result<(), Error> {
        for ids in wakeup.ids.chunks(PAGE) {
            let expanded = self.context.deliveries.expand(ids, self.context.outbox.now()).await?;
            if expanded > 0 {
                self.wake();
            }
        }
        if wakeup.look {
            let back = OVERLAP + self.context.outbox.0.options.poll_interval;
            let mut cursor = Cursor::at(earlier(self.context.outbox.now(), back));
            while self.page(&mut cursor).await?.full {}
            // The replica that staged may have expanded for us.
            self.wake();
        }
        Ok(())
    }

    /// Reads the next page of all pending rows, and more pages while rows need deliveries.
    async fn sweep(&mut self) -> Result<(), Error> {
        loop {
            let mut cursor = self.cursor.clone();
            let page = self.page(&mut cursor).await?;
            self.cursor = if page.full { cursor } else { Cursor::at(Timestamp::UNIX_EPOCH) };
            if page.expanded > 0 {
                self.wake();
            }
            if !page.full || page.expanded == 0 || self.context.stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    async fn page(&self, cursor: &mut Cursor) -> Result<Page, Error> {
        let deliveries = &self.context.deliveries;
        let rows = deliveries.pending(cursor.created_at, &cursor.id, PAGE).await?;
        let full = rows.len() == PAGE;
        if let Some(last) = rows.last() {
            *cursor = Cursor { created_at: last.created_at, id: last.id.clone() };
        }
        let missing: Vec<String> = rows.into_iter().filter(|row| row.missing).map(|row| row.id).collect();
        let expanded = deliveries.expand(&missing, self.context.outbox.now()).await?;
        Ok(Page { full, expanded })
    }

    fn wake(&self) {
        self.wakers.iter().for_each(|wake| wake.notify_one());
    }
}

struct Page {
    /// There may be more after it.
    full: bool,
    /// Deliveries that were created.
    expanded: u64,
}
