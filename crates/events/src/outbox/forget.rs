use std::collections::HashSet;

use gatewright_base::{Fitting, UserId};
use gatewright_db::{Error, RowRef, Tx, dialect, params};
use serde_json::Value;

use super::Outbox;
use super::deliveries::json;
use crate::forgotten::{RecordKey, emptied, gone_of};
use crate::{EventKind, Forget};

/// Rows of one step, and the bytes of their payloads, in addition to one of any size.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 1 << 20;

/// A row about a record.
struct Staged {
    id: String,
    payload: Value,
    is_pending: bool,
    is_owned: bool,
}

/// A change of a row: its payload, if that changes.
type Forgotten = (String, Option<String>);

impl Outbox {
    /// Removes a deleted account from the rows about its records, and the contents of records that were deleted with
    /// it. Contents that a consumer has not received yet stay until it has; while there are some, this returns `false`.
    /// It runs short transactions and can be repeated.
    pub async fn forget_owner(&self, user: &UserId, what: Forget) -> Result<bool, Error> {
        let is_told = self.forget_account(user).await?;
        let gone = gone_of(&self.0.db, self.deleted(user).await?).await?;
        // A delete event contains what to remove, so it stays until everything else is removed.
        let mut is_awaited = !gone.is_empty() && self.forget_rows("owner_id IS NULL", user, what, &gone).await?;
        is_awaited |= self.forget_rows("owner_id = ?2 AND type <> 'entity.deleted'", user, what, &gone).await?;
        if !is_awaited {
            is_awaited = self.forget_rows("owner_id = ?2", user, what, &gone).await?;
        }
        Ok(!is_awaited && is_told)
    }

    /// Leaves only the id in the events about the account itself that every consumer has. `false` while some have others.
    async fn forget_account(&self, user: &UserId) -> Result<bool, Error> {
        let subject = format!("user/{user}");
        let emptied = serde_json::json!({ "user": { "id": user.as_str() } }).to_string();
        let sql = "UPDATE event_outbox SET payload = ?2 \
                   WHERE record_key = ?1 AND payload <> ?2 AND COALESCE(status, '') <> 'pending'";
        self.0.db.execute(sql, params![&subject, &emptied]).await?;
        let sql = "SELECT 1 AS found FROM event_outbox WHERE record_key = ?1 AND payload <> ?2 LIMIT 1";
        Ok(self.0.db.query_opt(sql, params![&subject, &emptied]).await?.is_none())
    }

    /// The records whose delete event names the account.
    async fn deleted(&self, user: &UserId) -> Result<HashSet<RecordKey>, Error> {
        let (mut deleted, mut after) = (HashSet::new(), String::new());
        loop {
            let condition = "id > ?1 AND owner_id = ?2 AND type = ?3";
            let (rows, more) = self.some(condition, params![&after, user, EventKind::Deleted.as_str()]).await?;
            for staged in rows {
                deleted.extend(staged.key());
                after = staged.id;
            }
            if !more {
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
        let condition = format!(
            "id > ?1 AND {rows} AND type IN ('entity.created', 'entity.updated', 'entity.deleted') \
             AND (owner_id IS NULL OR owner_id = ?2)"
        );
        loop {
            let (rows, more) = self.some(&condition, params![&after, user]).await?;
            let mut changed = Vec::new();
            for staged in rows {
                after.clone_from(&staged.id);
                let is_gone = staged.key().is_some_and(|key| gone.contains(&key));
                let is_emptied = is_gone || (staged.is_owned && what == Forget::Contents);
                if is_emptied && staged.is_pending {
                    is_awaited = true;
                } else if is_emptied || staged.is_owned {
                    changed.push(staged.forgotten(is_emptied));
                }
            }
            is_awaited |= self.change(changed).await?;
            if !more {
                return Ok(is_awaited);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The first rows that meet a condition, in the order of their ids and as many as fit, and whether there may be more.
    async fn some(&self, condition: &str, params: Vec<gatewright_db::Value>) -> Result<(Vec<Staged>, bool), Error> {
        let (condition, engine) = (condition.to_owned(), self.0.db.engine());
        let read = async move |tx: &Tx| -> Result<_, Error> {
            let length = dialect::byte_length(engine, "payload");
            let lengths = format!(
                "SELECT id, COALESCE({length}, 0) FROM event_outbox WHERE {condition} ORDER BY id LIMIT {BATCH}"
            );
            let each = |sized: &mut Vec<(String, usize)>, row: &RowRef<'_>| {
                sized.push((row.get(0)?, usize::try_from(row.get::<i64>(1)?).unwrap_or(0)));
                Ok(())
            };
            let sized = tx.fold(lengths, params.clone(), Vec::new(), each).await?;
            let is_full = sized.len() == BATCH;
            let fitting = Fitting::of(sized, BATCH_BYTES);
            // Bytes: of rows that fit.
            let sql = format!(
                "SELECT id, COALESCE(payload, ''), COALESCE(status, ''), CASE WHEN owner_id IS NULL THEN 0 ELSE 1 END
                 FROM event_outbox WHERE {} ORDER BY id",
                dialect::is_among(engine, "id", "?1")
            );
            let each = |rows: &mut Vec<Staged>, row: &RowRef<'_>| {
                rows.push(Staged::read(row)?);
                Ok(())
            };
            let rows = tx.fold(sql, params![json(&fitting.taken)], Vec::new(), each).await?;
            Ok((rows, is_full || !fitting.rest.is_empty()))
        };
        self.0.db.read(read).await
    }

    /// Whether a consumer has begun to wait for some of these rows in between. These rows stay.
    async fn change(&self, changed: Vec<Forgotten>) -> Result<bool, Error> {
        if changed.is_empty() {
            return Ok(false);
        }
        let forget = async move |tx: &Tx| -> Result<bool, Error> {
            let mut is_awaited = false;
            for (id, payload) in &changed {
                let sql = "UPDATE event_outbox SET owner_id = NULL, payload = COALESCE(?2, payload), \
                           previous = CASE WHEN CAST(?2 AS text) IS NULL THEN previous END \
                           WHERE id = ?1 AND (CAST(?2 AS text) IS NULL OR COALESCE(status, '') <> 'pending')";
                is_awaited |= tx.execute(sql, params![id, payload.as_deref()]).await? == 0;
            }
            Ok(is_awaited)
        };
        self.0.db.write(forget).await
    }
}

impl Staged {
    fn read(row: &RowRef<'_>) -> Result<Self, Error> {
        let payload: String = row.get(1)?;
        let payload = serde_json::from_str(&payload).unwrap_or_else(|_| Value::Object(serde_json::Map::new()));
        let (is_pending, is_owned) = (row.get::<String>(2)? == "pending", row.get::<i64>(3)? != 0);
        Ok(Self { id: row.get(0)?, payload, is_pending, is_owned })
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
        // The account may have made the change.
        if let Some(payload) = payload.as_object_mut().filter(|_| is_emptied) {
            payload.remove("actor");
        }
        (self.id, is_emptied.then(|| payload.to_string()))
    }
}
