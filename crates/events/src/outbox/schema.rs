use gatewright_db::{Db, Error, Step, schema};

use super::InitError;

/// The component name for migrations of the outbox's tables.
pub const COMPONENT: &str = "outbox";

/// The outbox's tables, for [`gatewright_db::migrate`]. Existing tables of earlier programs, which may have more
/// columns, are used unchanged.
pub const STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "rows and deliveries",
        sql: "
CREATE TABLE IF NOT EXISTS event_outbox (
    id {text} NOT NULL PRIMARY KEY,
    type {text} NOT NULL,
    payload {text},
    status {text} NOT NULL DEFAULT 'pending',
    created_at {time} NOT NULL,
    dispatched_at {time}
);
CREATE INDEX IF NOT EXISTS event_outbox_status_created_at ON event_outbox (status, created_at);
CREATE TABLE IF NOT EXISTS event_outbox_delivery (
    row_id {text} NOT NULL REFERENCES event_outbox (id),
    consumer {text} NOT NULL,
    status {text} NOT NULL DEFAULT 'pending',
    attempts {int} NOT NULL DEFAULT 0,
    last_error {text},
    created_at {time} NOT NULL,
    next_attempt_at {time},
    claimed_until {time},
    dispatched_at {time},
    PRIMARY KEY (row_id, consumer)
);
CREATE INDEX IF NOT EXISTS event_outbox_delivery_status_next_attempt_at
    ON event_outbox_delivery (status, next_attempt_at);
CREATE INDEX IF NOT EXISTS event_outbox_delivery_due
    ON event_outbox_delivery (consumer, next_attempt_at, row_id) WHERE status = 'pending';
",
    },
    Step {
        version: 2,
        name: "the token that pulled a delivery",
        sql: "ALTER TABLE event_outbox_delivery ADD COLUMN token {text}",
    },
    Step {
        version: 3,
        name: "the relay that holds a delivery",
        sql: "
ALTER TABLE event_outbox_delivery ADD COLUMN relay {text};
CREATE INDEX event_outbox_delivery_relay ON event_outbox_delivery (relay) WHERE relay IS NOT NULL;
CREATE TABLE event_outbox_relay (
    id {text} NOT NULL PRIMARY KEY,
    beats {int} NOT NULL
)",
    },
    Step {
        version: 4,
        name: "the account that owns the record of a row",
        sql: "
ALTER TABLE event_outbox ADD COLUMN owner_id {text};
CREATE INDEX event_outbox_owner_id ON event_outbox (owner_id) WHERE owner_id IS NOT NULL",
    },
    Step {
        version: 5,
        name: "the order of a record's events, earlier values, chains and delays",
        sql: "
ALTER TABLE event_outbox ADD COLUMN entity {text};
ALTER TABLE event_outbox ADD COLUMN record_key {text};
ALTER TABLE event_outbox ADD COLUMN position {int};
ALTER TABLE event_outbox ADD COLUMN previous {text};
ALTER TABLE event_outbox ADD COLUMN chain {int};
ALTER TABLE event_outbox ADD COLUMN due_at {time};
CREATE INDEX event_outbox_record_key_position ON event_outbox (record_key, position) WHERE record_key IS NOT NULL;
ALTER TABLE event_outbox_delivery ADD COLUMN record_key {text};
ALTER TABLE event_outbox_delivery ADD COLUMN position {int};
CREATE INDEX event_outbox_delivery_open ON event_outbox_delivery (consumer, record_key, position)
    WHERE status = 'pending' AND record_key IS NOT NULL",
    },
];

const COLUMNS: [(&str, &[&str]); 3] = [
    (
        "event_outbox",
        &[
            "id",
            "type",
            "payload",
            "status",
            "created_at",
            "dispatched_at",
            "owner_id",
            "entity",
            "record_key",
            "position",
            "previous",
            "chain",
            "due_at",
        ],
    ),
    (
        "event_outbox_delivery",
        &[
            "row_id",
            "consumer",
            "status",
            "attempts",
            "last_error",
            "created_at",
            "next_attempt_at",
            "claimed_until",
            "dispatched_at",
            "token",
            "relay",
            "record_key",
            "position",
        ],
    ),
    ("event_outbox_relay", &["id", "beats"]),
];

/// Makes the tables, or only looks whether they are there.
pub(super) async fn prepare(db: &Db, create: bool) -> Result<(), InitError> {
    if create {
        gatewright_db::migrate(db, COMPONENT, STEPS).await?;
        return Ok(());
    }
    match missing(db).await? {
        Some(what) => Err(InitError::Missing(what)),
        None => Ok(()),
    }
}

async fn missing(db: &Db) -> Result<Option<String>, Error> {
    for (table, columns) in COLUMNS {
        let Some(shape) = schema::describe(db, table).await? else { return Ok(Some(format!("the table {table}"))) };
        let absent = columns.iter().find(|column| !shape.columns.iter().any(|found| found.name == **column));
        if let Some(column) = absent {
            return Ok(Some(format!("the column {column} of the table {table}")));
        }
    }
    Ok(None)
}
