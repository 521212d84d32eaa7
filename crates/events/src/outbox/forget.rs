use gatewright_base::UserId;
use gatewright_db::{Error, Tx, params};
use serde_json::Value;

use super::Outbox;
use crate::Forget;
use crate::forgotten::emptied;

/// Rows of one transaction.
const BATCH: usize = 100;

impl Outbox {
    /// Forgets a deleted account in the rows about its records. Contents that a consumer still waits for stay until it has
    /// them: `false` as long as there are such. It costs a few short transactions, and may be called again.
    pub async fn forget_owner(&self, user: &UserId, what: Forget) -> Result<bool, Error> {
        let user = user.as_str().to_owned();
        let sql = match what {
            Forget::Owner => {
                format!("SELECT id, '' AS payload FROM event_outbox WHERE owner_id = ?1 LIMIT {BATCH}")
            }
            Forget::Contents => format!(
                "SELECT id, COALESCE(payload, '') AS payload FROM event_outbox \
                 WHERE owner_id = ?1 AND COALESCE(status, '') <> 'pending' LIMIT {BATCH}"
            ),
        };
        loop {
            let (of, select) = (user.clone(), sql.clone());
            let forget = async move |tx: &Tx| -> Result<usize, Error> {
                let rows = tx.query(select.clone(), params![&of]).await?;
                for row in &rows {
                    let id: String = row.get("id")?;
                    match what {
                        Forget::Owner => {
                            tx.execute("UPDATE event_outbox SET owner_id = NULL WHERE id = ?1", params![id]).await?
                        }
                        Forget::Contents => {
                            let payload = without_contents(&row.get::<String>("payload")?);
                            let update = "UPDATE event_outbox SET owner_id = NULL, payload = ?2 WHERE id = ?1";
                            tx.execute(update, params![id, payload]).await?
                        }
                    };
                }
                Ok(rows.len())
            };
            if self.0.db.write(forget).await? < BATCH {
                break;
            }
            tokio::task::yield_now().await;
        }
        let left = "SELECT 1 AS found FROM event_outbox WHERE owner_id = ?1 LIMIT 1";
        Ok(self.0.db.query_opt(left, params![user]).await?.is_none())
    }
}

fn without_contents(payload: &str) -> String {
    let Ok(mut payload) = serde_json::from_str::<Value>(payload) else { return "{}".to_owned() };
    if let Some(record) = payload.get_mut("record") {
        *record = emptied(record);
    }
    payload.to_string()
}
