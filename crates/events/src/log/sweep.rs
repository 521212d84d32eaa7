use std::time::Duration;

use gatewright_db::{Error, Tx, dialect, params};

use super::EventLog;

/// Rows removed in one transaction.
const BATCH: usize = 500;
/// The longest time between two rounds.
const LONGEST: Duration = Duration::from_secs(30);

/// Removes rows that are older than they are kept, for as long as the log is followed.
pub(super) async fn run(log: EventLog) {
    let every = (log.0.options.keep / 10).clamp(Duration::from_millis(100), LONGEST);
    loop {
        tokio::time::sleep(every).await;
        loop {
            match log.sweep().await {
                Ok(removed) if removed >= BATCH => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(%error, "old rows of the event log were not removed");
                    break;
                }
            }
        }
    }
}

impl EventLog {
    /// Removes the oldest expired rows, at most [`BATCH`], and returns how many.
    async fn sweep(&self) -> Result<usize, Error> {
        let engine = self.engine();
        let now = dialect::now_micros(engine);
        let keep = i64::try_from(self.0.options.keep.as_micros()).unwrap_or(i64::MAX);
        let remove = format!(
            "DELETE FROM event_log WHERE created_at < {now} - ?1 AND position IN
             (SELECT position FROM event_log ORDER BY position LIMIT {BATCH}) RETURNING position"
        );
        self.db()
            .write(async move |tx: &Tx| -> Result<usize, Error> {
                // Held first, so that servers sweep one after the other.
                let state = format!("SELECT swept_to FROM event_log_state{}", dialect::for_update(engine));
                let held = tx.query_opt(state, vec![]).await?;
                let mut swept_to: i64 = held.map_or(Ok(0), |row| row.get("swept_to"))?;
                let removed = tx.query(remove.clone(), params![keep]).await?;
                if removed.is_empty() {
                    return Ok(0);
                }
                for row in &removed {
                    swept_to = swept_to.max(row.get("position")?);
                }
                tx.execute("UPDATE event_log_state SET swept_to = ?1", params![swept_to]).await?;
                Ok(removed.len())
            })
            .await
    }
}
