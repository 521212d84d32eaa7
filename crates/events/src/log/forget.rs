use gatewright_base::UserId;
use gatewright_db::{Error, Tx, params};
use serde_json::Value;

use super::EventLog;
use crate::Forget;
use crate::forgotten::emptied;

/// Positions that one statement looks through.
const RANGE: i64 = 5_000;

impl EventLog {
    /// Forgets a deleted account in the events of its records. Streams that resume behind them get what is left. It reads
    /// the whole log, in short steps.
    pub async fn forget_owner(&self, user: &UserId, what: Forget) -> Result<(), Error> {
        let ends = "SELECT COALESCE(MIN(position), 0) AS first, COALESCE(MAX(position), 0) AS last FROM event_log";
        let ends = self.db().query_opt(ends, vec![]).await?;
        let (mut first, last) = ends.map_or(Ok((0, 0)), |row| Ok((row.get("first")?, row.get("last")?)))?;
        while first <= last {
            self.forget_range(user, what, first).await?;
            first += RANGE;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn forget_range(&self, user: &UserId, what: Forget, first: i64) -> Result<(), Error> {
        let user = user.as_str().to_owned();
        let forget = async move |tx: &Tx| -> Result<(), Error> {
            let sql = "SELECT position, COALESCE(record, '') AS record FROM event_log \
                       WHERE position >= ?1 AND position < ?2 AND owner_id = ?3";
            for row in tx.query(sql, params![first, first + RANGE, &user]).await? {
                let position: i64 = row.get("position")?;
                let record: String = row.get("record")?;
                let record = serde_json::from_str::<Value>(&record).ok().map(|record| emptied(&record).to_string());
                match (what, record) {
                    // Without a record of its own, the row has that of the outbox.
                    (Forget::Owner, _) | (Forget::Contents, None) => {
                        let sql = "UPDATE event_log SET owner_id = NULL, read_before = NULL WHERE position = ?1";
                        tx.execute(sql, params![position]).await?
                    }
                    (Forget::Contents, Some(record)) => {
                        let sql =
                            "UPDATE event_log SET owner_id = NULL, read_before = NULL, record = ?2 WHERE position = ?1";
                        tx.execute(sql, params![position, record]).await?
                    }
                };
            }
            Ok(())
        };
        self.db().write(forget).await
    }
}
