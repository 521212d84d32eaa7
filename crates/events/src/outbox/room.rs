//! The bytes of the outbox, and their limit.
//!
//! A caller can make every event large, and an event that is not delivered must not be lost. So when the limit is reached, writes
//! that would stage another one are refused. Before that, from half of the limit on, delivered events are removed whatever their
//! retention, the oldest first, and one caller may add only a part of the limit: callers who write little are not refused because
//! of one who writes much.
//!
//! Each process counts the bytes that it stages. When these are a part of what is left, it counts the table, which also shows
//! what other processes have staged and what was delivered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Fitting;
use gatewright_db::{Db, Error, RowRef, Share, Tx, dialect, params};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::deliveries::json;

/// The bytes of a row without its payload, with its deliveries.
const BESIDE: usize = 512;
/// The part of the limit that one caller may add while the outbox is half full.
const SHARE: u64 = 8;
/// The part of what is left after which the table is counted again, and the least part of the limit.
const PART: u64 = 4;
const LEAST: u64 = 64;
/// Callers that are counted separately. Others share one number.
const CALLERS: usize = 4096;
const OTHERS: Share = Share(1);
/// Rows removed in one transaction, and their bytes: other writes wait for it.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 16 << 20;
/// How often an outbox that is half full is counted, at most, and how much longer than one count takes.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGER: u32 = 10;
/// How often one is counted otherwise.
const LONGEST: Duration = Duration::from_mins(10);

/// The outbox has as many bytes as it may have, or the caller has added their part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the outbox is full: too many events wait for their consumers")]
pub struct OutboxFull;

pub(super) struct Room {
    /// `None`: no limit.
    most: Option<u64>,
    state: Mutex<State>,
    /// The table is to be counted.
    due: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The bytes of all rows when they were counted. `None`: not counted yet.
    counted: Option<u64>,
    /// Those that this process has committed since.
    since: u64,
    /// Those of each caller since the outbox was half full.
    callers: HashMap<Share, u64>,
    /// Whether the log says that it is half full, and that it is full.
    logged: (bool, bool),
}

impl State {
    fn bytes(&self) -> u64 {
        self.counted.unwrap_or(0).saturating_add(self.since)
    }

    fn of(&self, share: Share) -> u64 {
        let key = if self.callers.contains_key(&share) { share } else { OTHERS };
        self.callers.get(&key).copied().unwrap_or(0)
    }
}

/// The bytes of a row with this payload, as they count.
pub(super) fn size(payload: usize) -> u64 {
    (payload + BESIDE) as u64
}

impl Room {
    pub(super) fn new(most: u64) -> Self {
        Self { most: (most > 0).then_some(most), state: Mutex::default(), due: Notify::new() }
    }

    pub(super) fn most(&self) -> Option<u64> {
        self.most
    }

    /// The bytes when they were last counted, and of what this process has staged since; `None` before the first count.
    pub(super) fn bytes(&self) -> Option<u64> {
        let state = self.state.lock();
        state.counted.map(|_| state.bytes())
    }

    /// Whether a caller may stage another event. The program itself (the default share) may until the limit is reached.
    pub(super) fn admit(&self, share: Share) -> Result<(), OutboxFull> {
        let Some(most) = self.most else { return Ok(()) };
        let state = self.state.lock();
        let bytes = state.bytes();
        let is_over_share = share != Share::default() && bytes >= most / 2 && state.of(share) >= (most / SHARE).max(1);
        if bytes >= most || is_over_share { Err(OutboxFull) } else { Ok(()) }
    }

    /// Counts a row that is committed.
    pub(super) fn committed(&self, share: Share, bytes: u64) {
        let Some(most) = self.most else { return };
        let mut state = self.state.lock();
        state.since = state.since.saturating_add(bytes);
        if state.bytes() >= most / 2 {
            let is_counted = state.callers.contains_key(&share) || state.callers.len() < CALLERS;
            let own = state.callers.entry(if is_counted { share } else { OTHERS }).or_default();
            *own = own.saturating_add(bytes);
        }
        let is_due = match state.counted {
            None => true,
            Some(counted) => state.since >= (most.saturating_sub(counted) / PART).max(most / LEAST),
        };
        if is_due {
            self.due.notify_one();
        }
    }

    /// Counts the table when it is due, and removes what may go, until `ended`.
    pub(super) async fn run(self: Arc<Self>, db: Db, mut ended: watch::Receiver<()>) {
        let Some(most) = self.most else { return };
        let mut pause = LONGEST;
        loop {
            tokio::select! {
                () = self.due.notified() => {}
                () = tokio::time::sleep(pause), if self.bytes().is_some() => {}
                _ = ended.changed() => return,
            }
            let began = Instant::now();
            let counted = self.count(&db, most).await;
            let is_pressed = counted.unwrap_or_else(|error| {
                tracing::debug!(%error, "the bytes of the outbox cannot be counted");
                true
            });
            pause = if is_pressed { (began.elapsed() * LONGER).clamp(SHORTEST, LONGEST) } else { LONGEST };
        }
    }

    /// Returns whether it is half full with what must stay.
    async fn count(&self, db: &Db, most: u64) -> Result<bool, Error> {
        // What is committed meanwhile may be counted twice, and not too little.
        let before = self.state.lock().since;
        let mut bytes = table(db).await?;
        while bytes > most / 2 {
            let removed = remove(db, bytes - most / 2).await?;
            if removed == 0 {
                break;
            }
            bytes = bytes.saturating_sub(removed);
            tokio::task::yield_now().await;
        }
        let mut state = self.state.lock();
        state.since = state.since.saturating_sub(before);
        state.counted = Some(bytes);
        let now = (state.bytes() >= most / 2, state.bytes() >= most);
        if !now.0 {
            state.callers.clear();
        }
        let logged = std::mem::replace(&mut state.logged, now);
        drop(state);
        match (logged, now) {
            ((_, false), (_, true)) => tracing::error!(
                bytes,
                limit = most,
                "the outbox is full: writes are refused until consumers take their events, or outbox.max_bytes is increased"
            ),
            ((false, _), (true, _)) => tracing::warn!(
                bytes,
                limit = most,
                "the outbox is half full with events that are not delivered; see `gatewright outbox stats`"
            ),
            ((true, _), (false, _)) => tracing::info!(bytes, limit = most, "the outbox is less than half full again"),
            _ => {}
        }
        Ok(now.0)
    }
}

/// The bytes of all rows.
pub(super) async fn table(db: &Db) -> Result<u64, Error> {
    let engine = db.engine();
    let (length, previous) = (dialect::byte_length(engine, "payload"), dialect::byte_length(engine, "previous"));
    let sql = format!(
        "SELECT CAST(COALESCE(SUM(COALESCE({length}, 0) + COALESCE({previous}, 0) + {BESIDE}), 0) AS BIGINT) AS bytes
         FROM event_outbox"
    );
    let row = db.query_opt(sql, vec![]).await?;
    Ok(row.map_or(Ok(0), |row| row.get::<i64>("bytes"))?.unsigned_abs())
}

/// Removes some of the oldest rows whose deliveries were all delivered, of at most about `excess` bytes. Returns their bytes.
async fn remove(db: &Db, excess: u64) -> Result<u64, Error> {
    let engine = db.engine();
    let (length, previous) = (dialect::byte_length(engine, "r.payload"), dialect::byte_length(engine, "r.previous"));
    let delivered = format!(
        "SELECT r.id, COALESCE({length}, 0) + COALESCE({previous}, 0) + {BESIDE} AS bytes FROM event_outbox r WHERE r.status = 'dispatched'
         AND NOT EXISTS (SELECT 1 FROM event_outbox_delivery d WHERE d.row_id = r.id AND d.status <> 'dispatched')
         ORDER BY r.created_at LIMIT {BATCH}{}",
        dialect::for_update_skip_locked(engine)
    );
    let delete =
        |table: &str, column: &str| format!("DELETE FROM {table} WHERE {}", dialect::is_among(engine, column, "?1"));
    let (deliveries, rows) = (delete("event_outbox_delivery", "row_id"), delete("event_outbox", "id"));
    db.write(async move |tx: &Tx| -> Result<u64, Error> {
        let each = |found: &mut Vec<(String, usize)>, row: &RowRef<'_>| {
            found.push((row.get(0)?, usize::try_from(row.get::<i64>(1)?).unwrap_or(0)));
            Ok(())
        };
        let found = tx.fold(delivered.clone(), params![], Vec::new(), each).await?;
        let most = usize::try_from(excess).unwrap_or(usize::MAX).min(BATCH_BYTES);
        let going = Fitting::of(found, most);
        if going.taken.is_empty() {
            return Ok(0);
        }
        tx.execute(deliveries.clone(), params![json(&going.taken)]).await?;
        tx.execute(rows.clone(), params![json(&going.taken)]).await?;
        Ok(going.bytes as u64)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1000;

    fn counted(bytes: u64) -> Room {
        let room = Room::new(MOST);
        room.state.lock().counted = Some(bytes);
        room
    }

    #[test]
    fn one_caller_adds_a_part_of_a_half_full_outbox_and_others_go_on_until_it_is_full() {
        let room = counted(MOST / 2 - 1);
        let (eve, bob, program) = (Share(7), Share(8), Share::default());
        for added in [1, 100, 24] {
            assert_eq!(room.admit(eve), Ok(()), "before {added}");
            room.committed(eve, added);
        }
        assert_eq!((room.admit(eve), room.admit(bob), room.admit(program)), (Err(OutboxFull), Ok(()), Ok(())));
        room.committed(program, 400);
        assert_eq!([eve, bob, program].map(|share| room.admit(share)), [Err(OutboxFull); 3]);
    }

    #[test]
    fn without_a_limit_and_below_half_of_it_nobody_is_refused() {
        for (room, added) in [(Room::new(0), u64::MAX), (counted(0), MOST / 2 - 1)] {
            room.committed(Share(7), added);
            assert_eq!(room.admit(Share(7)), Ok(()));
        }
    }

    #[test]
    fn callers_beyond_those_that_are_counted_share_one_part() {
        let room = Room::new(1 << 40);
        room.state.lock().counted = Some(1 << 39);
        for caller in 0..CALLERS as u64 {
            room.committed(Share(caller + 10), 1);
        }
        room.committed(Share(9_000_000), 1 << 37);
        assert_eq!((room.admit(Share(9_000_001)), room.admit(Share(10))), (Err(OutboxFull), Ok(())));
        assert!(room.state.lock().callers.len() <= CALLERS + 1);
    }
}
