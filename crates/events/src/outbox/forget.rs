use std::collections::HashSet;

use gatewright_base::UserId;
use gatewright_db::{Error, Row, Sql, Tx, params};
use serde_json::Value;

use super::Outbox;
use crate::forgotten::{RecordKey, emptied, gone_of};
use crate::{EventKind, Forget};

/// Rows of one step.
const BATCH: usize = 100;

/// A row about a record.
struct Staged {
    id: String,
    payload: Value,
    is_pending: bool,
}

/// A change of a row: its payload, if that changes.
type Forgotten = (String, Option<String>);

impl Outbox {
    /// Removes a deleted account from the rows about its records, and the contents of records that were deleted with
    /// it. Contents that a consumer has not received yet stay until it has; while there are some, this returns `false`.
    /// It runs short transactions and can be repeated.
    pub async fn forget_owner(&self, user: &UserId, what: Forget) -> Result<bool, Error> {
        let gone = gone_of(&self.0.db, self.deleted(user).await?).await?;
        // A delete event contains what to remove, so it stays until everything else is removed.
        let mut is_awaited = !gone.is_empty() && self.forget_rows("owner_id IS NULL", user, what, &gone).await?;
        is_awaited |= self.forget_rows("owner_id = ?2 AND type <> 'entity.deleted'", user, what, &gone).await?;
        if !is_awaited {
            is_awaited = self.forget_rows("owner_id = ?2", user, what, &gone).await?;
        }
        Ok(!is_awaited)
    }

    /// The records whose delete event names the account.
    async fn deleted(&self, user: &UserId) -> Result<HashSet<RecordKey>, Error> {
        let (mut deleted, mut after) = (HashSet::new(), String::new());
        loop {
            let sql = format!(
                "SELECT id, COALESCE(payload, '') AS payload, COALESCE(status, '') AS status FROM event_outbox \
                 WHERE owner_id = ?1 AND type = ?2 AND id > ?3 ORDER BY id LIMIT {BATCH}"
            );
            let rows = self.0.db.query(sql, params![user, EventKind::Deleted.as_str(), &after]).await?;
            for row in &rows {
                let staged = Staged::read(row)?;
                deleted.extend(staged.key());
                after = staged.id;
            }
            if rows.len() < BATCH {
                return Ok(deleted);
            }
        }
    }

    /// Forgets the account in these rows. Whether a consumer still waits for the contents of some.
    async fn forget_rows(
        &self,
        rows: &str,
        user: &UserId,
        what: Forget,
        gone: &HashSet<RecordKey>,
    ) -> Result<bool, Error> {
        let (mut is_awaited, mut after) = (false, String::new());
        let sql: Sql = format!(
            "SELECT id, COALESCE(payload, '') AS payload, COALESCE(status, '') AS status, owner_id FROM event_outbox \
             WHERE id > ?1 AND {rows} AND type IN ('entity.created', 'entity.updated', 'entity.deleted') \
             AND (owner_id IS NULL OR owner_id = ?2) ORDER BY id LIMIT {BATCH}"
        )
        .into();
        loop {
            let rows = self.0.db.query(&sql, params![&after, user]).await?;
            let mut changed = Vec::new();
            for row in &rows {
                let staged = Staged::read(row)?;
                after.clone_from(&staged.id);
                let is_owned = row.get::<Option<String>>("owner_id")?.is_some();
                let is_gone = staged.key().is_some_and(|key| gone.contains(&key));
                let is_emptied = is_gone || (is_owned && what == Forget::Contents);
                if is_emptied && staged.is_pending {
                    is_awaited = true;
                } else if is_emptied || is_owned {
                    changed.push(staged.forgotten(is_emptied));
                }
            }
            is_awaited |= self.change(changed).await?;
            if rows.len() < BATCH {
                return Ok(is_awaited);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether a consumer has begun to wait for some of these rows in between. These rows stay.
    async fn change(&self, changed: Vec<Forgotten>) -> Result<bool, Error> {
        if changed.is_empty() {
            return Ok(false);
        }
        let forget = async move |tx: &Tx| -> Result<bool, Error> {
            let mut is_awaited = false;
            for (id, payload) in &changed {
                let sql = "UPDATE event_outbox SET owner_id = NULL, payload = COALESCE(?2, payload) \
                           WHERE id = ?1 AND (CAST(?2 AS text) IS NULL OR COALESCE(status, '') <> 'pending')";
                is_awaited |= tx.execute(sql, params![id, payload.as_deref()]).await? == 0;
            }
            Ok(is_awaited)
        };
        self.0.db.write(forget).await
    }
}

impl Staged {
    fn read(row: &Row) -> Result<Self, Error> {
        let payload: String = row.get("payload")?;
        let payload = serde_json::from_str(&payload).unwrap_or_else(|_| Value::Object(serde_json::Map::new()));
        Ok(Self { id: row.get("id")?, payload, is_pending: row.get::<String>("status")? == "pending" })
    }

    fn key(&self) -> Option<RecordKey> {
        RecordKey::of(self.payload.get("table")?.as_str()?, self.payload.get("record")?)
    }

    /// The row without the account, and without its record's contents if they are removed.
    fn forgotten(self, is_emptied: bool) -> Forgotten {
        let mut payload = self.payload;
        if let Some(record) = payload.get_mut("record").filter(|_| is_emptied) {
            *record = emptied(record);
        }
        (self.id, is_emptied.then(|| payload.to_string()))
    }
}
