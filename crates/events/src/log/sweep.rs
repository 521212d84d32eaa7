//! Removes events that are older than they are kept, and the oldest ones when the log has more bytes than it may have.
//!
//! Each process counts the bytes of the events that it sees, its own and those of other servers. When they exceed the room
//! that the log has left, it counts the log itself and removes the oldest at once. It removes some more than needed, so that
//! it counts the log once for many events.

use std::time::Duration;

use gatewright_base::Fitting;
use gatewright_db::{Error, RowRef, Tx, Value, dialect, params};

use super::EventLog;
use super::witness::Witness;

/// Rows removed in one transaction, and their bytes: other writes wait for it.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 16 << 20;
/// The longest time between two rounds.
const LONGEST: Duration = Duration::from_secs(30);
/// How long to wait after the database did not answer, or while events may not go yet.
const PAUSE: Duration = Duration::from_millis(500);
/// The bytes of a row without its record.
const BESIDE: usize = 256;
/// A log that is too large is reduced by this part of what it may have.
const REDUCED_BY: u64 = 8;

/// The bytes of a row, as they count.
pub(super) fn size(record: usize, before: usize) -> u64 {
    (record + before + BESIDE) as u64
}

/// Runs for as long as the log is followed.
pub(super) async fn run(log: EventLog) {
    let every = (log.0.options.keep / 10).clamp(Duration::from_millis(100), LONGEST);
    let full = log.0.sequence.lock().full();
    let mut is_full = true;
    loop {
        let is_left = log.tidy(is_full).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "old rows of the event log were not removed");
            true
        });
        if is_left {
            tokio::time::sleep(PAUSE).await;
        }
        is_full = is_full && is_left
            || tokio::select! {
                () = full.notified() => true,
                () = tokio::time::sleep(every) => false,
            };
    }
}

impl EventLog {
    /// Removes what is too old. If the log may have too many bytes, they are counted, and the oldest events go. Returns
    /// whether there are still too many.
    async fn tidy(&self, is_full: bool) -> Result<bool, Error> {
        let most = self.0.options.keep_bytes;
        let mut excess = 0;
        if is_full {
            self.0.sequence.lock().begin_count();
            let bytes = self.bytes().await?;
            let kept = most - most / REDUCED_BY;
            excess = if bytes > most { bytes - kept } else { 0 };
            self.0.sequence.lock().end_count(most.saturating_sub(bytes - excess));
        }
        while self.sweep(&mut excess).await? {
            tokio::task::yield_now().await;
        }
        Ok(excess > 0)
    }

    /// The bytes of all rows.
    async fn bytes(&self) -> Result<u64, Error> {
        let sql = format!("SELECT CAST(COALESCE(SUM({}), 0) AS BIGINT) AS bytes FROM event_log", self.size());
        let row = self.db().query_opt(sql, vec![]).await?;
        Ok(row.map_or(Ok(0), |row| row.get::<i64>("bytes"))?.unsigned_abs())
    }

    fn size(&self) -> String {
        let [record, before] = ["record", "read_before"].map(|column| dialect::byte_length(self.engine(), column));
        format!("COALESCE({record}, 0) + COALESCE({before}, 0) + {BESIDE}")
    }

    /// Removes some of the oldest rows: those that have expired, and others while `excess` bytes are left. Returns whether
    /// there may be more.
    ///
    /// No event goes before this process has published it, so that no transaction still writes below it.
    async fn sweep(&self, excess: &mut u64) -> Result<bool, Error> {
        let (engine, over) = (self.engine(), *excess);
        let now = dialect::now_micros(engine);
        let keep = i64::try_from(self.0.options.keep.as_micros()).unwrap_or(i64::MAX);
        let published = self.cursor().position;
        let oldest = format!(
            "SELECT position, id, {} AS bytes, CASE WHEN created_at < {now} - ?1 THEN 1 ELSE 0 END AS is_old
             FROM event_log ORDER BY position LIMIT {BATCH}",
            self.size()
        );
        let remove = format!("DELETE FROM event_log WHERE {}", dialect::is_among_integers(engine, "position", "?1"));
        let swept = self.db().write(async move |tx: &Tx| -> Result<(bool, u64), Error> {
            // Held first, so that servers sweep one after the other.
            let state = format!("SELECT swept_to FROM event_log_state{}", dialect::for_update(engine));
            let held = tx.query_opt(state, vec![]).await?;
            let swept_to: i64 = held.map_or(Ok(0), |row| row.get("swept_to"))?;
            let each = |rows: &mut Vec<(Witness, usize, bool)>, row: &RowRef<'_>| {
                let witness = Witness::new(row.get(0)?, &row.get::<String>(1)?);
                let bytes = usize::try_from(row.get::<i64>(2)?).unwrap_or(0);
                rows.push((witness, bytes, row.get::<i64>(3)? != 0));
                Ok(())
            };
            let oldest = tx.fold(oldest.clone(), params![keep], Vec::new(), each).await?;
            let mut left = over;
            let goes = oldest.iter().take_while(|(event, bytes, is_old)| {
                let is_over = left > 0;
                left = left.saturating_sub(*bytes as u64);
                (is_over || *is_old) && event.position <= published
            });
            let going = Fitting::of(goes.map(|(event, bytes, _)| (*event, *bytes)), BATCH_BYTES);
            let Some(last) = going.taken.last() else { return Ok((false, 0)) };
            let more = going.taken.len() == BATCH || !going.rest.is_empty();
            let positions: Vec<i64> = going.taken.iter().map(|event| event.position).collect();
            let positions = Value::Text(serde_json::Value::from(positions).to_string());
            tx.execute(remove.clone(), vec![positions]).await?;
            if last.position >= swept_to {
                let update = "UPDATE event_log_state SET swept_to = ?1, last_swept = ?2";
                tx.execute(update, params![last.position, last.to_string()]).await?;
            }
            Ok((more, going.bytes as u64))
        });
        let (more, bytes) = swept.await?;
        *excess = over.saturating_sub(bytes);
        Ok(more)
    }
}
