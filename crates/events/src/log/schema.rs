use gatewright_base::Ambient;
use gatewright_db::{Db, Error, Step, Tx, params, schema};

use super::InitError;

/// The component name for migrations of the log's tables.
pub const COMPONENT: &str = "event_log";

/// The log's tables, for [`gatewright_db::migrate`].
///
/// `record` is absent where the event is staged for the outbox as well: the outbox row with the same id has it.
/// `swept_to` is the last position that was removed, and `last_swept` the check of the event that was there.
/// `read_before` is what the event's [`before`](crate::EntityEvent::before) is.
pub const STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "events by position",
        sql: "
CREATE TABLE event_log (
    position {serial},
    id {text} NOT NULL,
    type {text} NOT NULL,
    entity {text} NOT NULL,
    table_name {text} NOT NULL,
    tenant_id {text},
    owner_id {text},
    record {text},
    origin {text} NOT NULL,
    created_at {int} NOT NULL
);
CREATE INDEX event_log_table_name_position ON event_log (table_name, position);
CREATE TABLE event_log_state (
    name {text} NOT NULL PRIMARY KEY,
    swept_to {int} NOT NULL
)",
    },
    Step {
        version: 2,
        name: "who could read a record before",
        sql: "ALTER TABLE event_log ADD COLUMN read_before {text}",
    },
    Step {
        version: 3,
        name: "the last event that was removed",
        sql: "ALTER TABLE event_log_state ADD COLUMN last_swept {text}",
    },
];

/// Creates the tables, or only checks that they exist, and returns the log's name, which is `fresh` for a new one.
pub(super) async fn prepare(db: &Db, create: bool, fresh: String) -> Result<String, InitError> {
    if create {
        gatewright_db::migrate(db, COMPONENT, STEPS).await?;
    } else {
        for table in ["event_log", "event_log_state"] {
            if schema::describe(db, table).await?.is_none() {
                return Err(InitError::Missing(table));
            }
        }
    }
    Ok(db.write(async move |tx: &Tx| named(tx, &fresh).await).await?)
}

/// Invalidates all positions that clients have. Call it after a database was restored to an earlier state, because
/// positions are assigned again, to other events. Streams that resume get `gap`. No server may run on the database.
pub async fn forget_positions(db: &Db) -> Result<(), Error> {
    if schema::describe(db, "event_log_state").await?.is_none() {
        return Ok(());
    }
    db.write(async |tx: &Tx| {
        tx.execute("DELETE FROM event_log", vec![]).await?;
        tx.execute("DELETE FROM event_log_state", vec![]).await.map(|_| ())
    })
    .await
}

/// A name for a log that has none.
pub(super) fn fresh_name(ambient: &Ambient) -> String {
    format!("{:016x}", u64::from_le_bytes(ambient.bytes()))
}

/// Two servers that start together agree on the name: the lock has them come one after the other.
pub(super) async fn named(tx: &Tx, fresh: &str) -> Result<String, Error> {
    gatewright_db::dialect::lock_schema(tx).await?;
    if let Some(row) = tx.query_opt("SELECT name FROM event_log_state", vec![]).await? {
        return row.get("name");
    }
    tx.execute("INSERT INTO event_log_state (name, swept_to) VALUES (?1, 0)", params![fresh]).await?;
    Ok(fresh.to_owned())
}
