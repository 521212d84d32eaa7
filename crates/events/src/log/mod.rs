//! The event log stores every write's event for a limited time, so that streams can resume.
//!
//! A write appends its event in its own transaction ([`EventLog::append`]), so that write and event are committed
//! together. Clients resume from the row's position: see [`Cursor`]. Rows are removed after [`LogOptions::keep`], and the
//! oldest when they have more bytes than [`LogOptions::keep_bytes`], in small batches.
//!
//! On Postgres, positions are assigned before transactions commit, so a row may appear before one that was already
//! read. Readers must not skip it: `ledger` tracks the open positions, `sequence` orders the events for streams, and
//! `follow` reads other servers' rows, also without a notification of a carrier. The database's transaction ids show
//! when no transaction can fill a position any more; it is then given up.
//!
//! On SQLite the only writer determines the order, and there are no open positions.
//!
//! A database may come back without its last commits, and then assigns their positions to other events. `witness` has
//! how that is recognized, `compare` how a process finds it, and a `generation` is the time between two such losses.

mod compare;
mod counting;
mod cursor;
mod follow;
mod forget;
pub(crate) mod generation;
mod ledger;
pub(crate) mod page;
mod schema;
pub(crate) mod sequence;
mod sweep;
pub(crate) mod witness;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, Budget, JsonCase};
use gatewright_db::{Db, Engine, Error, MigrateError, Row, Sql, Tx, Value, dialect, params};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

pub use cursor::Cursor;

pub use schema::{COMPONENT, STEPS, forget_positions};

use self::counting::Counting;
use self::generation::Generation;
use self::ledger::Ledger;
use self::sequence::Sequence;
use self::witness::{Witness, Witnesses};
use crate::{Bus, EntityEvent};

/// The options of the log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// How long events are kept. Default: 10 minutes.
    pub keep: Duration,
    /// The most bytes of all events. Past them the oldest are removed at once. Default: 1 GiB.
    pub keep_bytes: u64,
    /// How often the log is read for events without a notification. Default: 250 milliseconds.
    pub poll_interval: Duration,
    /// Whether missing tables are created. If not, they must exist.
    pub create_tables: bool,
    /// The case of JSON keys in events, the same as for the outbox.
    pub json_case: JsonCase,
    /// Whether a staged event's record is read from its outbox row. Turn it off if such a row may be purged before the
    /// event.
    pub share_staged: bool,
    /// What the records that are read take their memory from. Default: no limit.
    pub budget: Budget,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            keep: Duration::from_mins(10),
            keep_bytes: 1 << 30,
            poll_interval: Duration::from_millis(250),
            create_tables: true,
            json_case: JsonCase::default(),
            share_staged: true,
            budget: Budget::unlimited(),
        }
    }
}

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The tables could not be created.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Error),
    /// This table is missing, and creating tables is turned off.
    #[error("the event log needs the table {0}; run `gatewright migrate`, or set `events.replay_seconds = 0`")]
    Missing(&'static str),
}

/// The event log of a database. Cheap to clone.
#[derive(Clone)]
pub struct EventLog(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    db: Db,
    ambient: Ambient,
    options: LogOptions,
    /// This process's name on the rows that it writes.
    origin: String,
    insert: Sql,
    counting: Counting,
    pub(crate) sequence: Mutex<Sequence>,
    pub(crate) wake: Notify,
    /// The number of the generation.
    renewed: watch::Sender<u64>,
    /// The names that the log had in earlier generations of this process.
    spent: Mutex<Vec<Arc<str>>>,
}

/// The columns of a row, the last for the time at which it was written.
const COLUMNS: &str = "id, type, entity, table_name, tenant_id, owner_id, record, origin, read_before, created_at";
/// The number of the other columns, whose values the writer sets.
const GIVEN: usize = 9;
/// The position of the record among them.
const RECORD: usize = 6;

/// The parameters of a [`logged_insert`], and the event that it appends.
#[derive(Debug, Clone)]
pub struct LoggedInsert {
    /// The parameters.
    pub params: Vec<Value>,
    event: EntityEvent,
    id: String,
}

impl LoggedInsert {
    /// The event, once the statement has returned its position.
    pub fn event_at(self, position: i64) -> EntityEvent {
        self.event.with_place(self.id, position)
    }

    /// [`event_at`](Self::event_at) of a [`numbered_insert`], whose record is known only then: `event` is that of the record with its
    /// number.
    pub fn numbered_event_at(self, position: i64, event: EntityEvent) -> EntityEvent {
        let event = match self.event.generation() {
            Some(generation) => event.of_generation(generation.clone()),
            None => event,
        };
        event.with_place(self.id, position)
    }
}

/// Positions that are checked at the start for transactions that were still running.
const LOOKED_BACK: i64 = 1_000;

impl EventLog {
    /// Opens the log of `db` and creates or migrates its tables, or checks them.
    pub async fn open(db: Db, ambient: Ambient, options: LogOptions) -> Result<Self, InitError> {
        let name = schema::prepare(&db, options.create_tables, schema::fresh_name(&ambient)).await?;
        let generation = Arc::new(Generation::first(name));
        let now = dialect::now_micros(db.engine());
        let numbering = dialect::numbering(db.engine(), "position");
        let insert = format!("INSERT INTO event_log ({COLUMNS}) VALUES ({}, {now}){numbering}", placeholders(1));
        let (ledger, witnesses) = last_positions(&db).await?;
        Ok(Self(Arc::new(Inner {
            origin: ambient.uuid().to_string(),
            insert: insert.into(),
            counting: Counting::new(),
            renewed: watch::channel(generation.number).0,
            spent: Mutex::default(),
            sequence: Mutex::new(Sequence::new(ledger, witnesses, generation)),
            wake: Notify::new(),
            db,
            ambient,
            options,
        })))
    }

    /// Appends an event in the write's own transaction, and returns it with its position and id.
    ///
    /// If `staged` names the outbox row with the same event, the event has its id, and the record is not written twice
    /// unless [`LogOptions::share_staged`] is off. `tx` must have written before, because on Postgres it gets its
    /// transaction id then.
    pub async fn append(&self, tx: &Tx, event: EntityEvent, staged: Option<String>) -> Result<EntityEvent, Error> {
        let is_shared = staged.is_some() && self.0.options.share_staged;
        let id = staged.unwrap_or_else(|| self.0.ambient.uuid().to_string());
        let params = self.params(&id, &event, is_shared);
        let event = event.of_generation(self.generation());
        let position = tx.insert_numbered(&self.0.insert, params).await?;
        Ok(event.with_place(id, position))
    }

    /// The parameters of a [`logged_insert`]: the INSERT's own `params` and those for appending the `event` of the new
    /// record.
    pub fn with_insert(&self, mut params: Vec<Value>, event: EntityEvent) -> LoggedInsert {
        let id = self.0.ambient.uuid().to_string();
        params.extend(self.params(&id, &event, false));
        LoggedInsert { params, event: event.of_generation(self.generation()), id }
    }

    /// The parameters of a [`numbered_insert`]. `event` is that of the record with another number, which is the text at `hole` of
    /// its JSON.
    pub fn with_numbered_insert(&self, params: Vec<Value>, event: EntityEvent, hole: Range<usize>) -> LoggedInsert {
        let end = text(&event.record()[hole.end..]);
        let begin = text(&event.record()[..hole.start]);
        let mut logged = self.with_insert(params, event);
        let record = logged.params.len() - GIVEN + RECORD;
        logged.params[record] = Value::Text(begin);
        logged.params.push(Value::Text(end));
        logged
    }

    fn params(&self, id: &str, event: &EntityEvent, is_shared: bool) -> Vec<Value> {
        let record = (!is_shared).then(|| text(event.record()));
        params![
            id,
            event.kind().as_str(),
            event.entity(),
            event.table(),
            event.tenant_id(),
            event.owner(),
            record,
            &self.0.origin,
            event.before()
        ]
    }

    /// Connects the log to `bus`: publishes other servers' events there, and all events in the order of the log.
    /// Removes old rows. Ends when the returned value is dropped. Needs a Tokio runtime. Call it once for a bus.
    pub fn follow(&self, bus: &Bus) -> Following {
        bus.take_order_from(self.clone());
        let tasks = [
            tokio::spawn(follow::run(self.clone(), bus.downgrade())).abort_handle(),
            tokio::spawn(sweep::run(self.clone())).abort_handle(),
        ];
        Following(tasks)
    }

    /// The position up to which every event has been published in this process. A later read of the database includes
    /// all these events.
    pub fn cursor(&self) -> Cursor {
        self.now().0
    }

    /// The cursor, and the generation to which it belongs.
    pub(crate) fn now(&self) -> (Cursor, Arc<Generation>) {
        let sequence = self.0.sequence.lock();
        let (position, generation) = (sequence.passed(), sequence.generation().clone());
        let witness = sequence.witness_at(position);
        (Cursor { log: generation.name.clone(), position, witness }, generation)
    }

    pub(crate) fn generation(&self) -> Arc<Generation> {
        self.0.sequence.lock().generation().clone()
    }

    /// What records take their memory from.
    pub(crate) fn budget(&self) -> &Budget {
        &self.0.options.budget
    }

    pub(crate) fn db(&self) -> &Db {
        &self.0.db
    }

    fn engine(&self) -> Engine {
        self.0.db.engine()
    }
}

/// JSON as text. Whole at once it is checked much faster than piece by piece.
fn text(json: &[u8]) -> String {
    std::str::from_utf8(json).map_or_else(|_| String::from_utf8_lossy(json).into_owned(), str::to_owned)
}

/// The statement that runs `insert`, an INSERT of one row with `params` parameters, and appends its event: one round
/// trip to the server instead of three. It returns the column `position`. `None` on an engine without a server.
pub fn logged_insert(engine: Engine, insert: &Sql, params: usize) -> Option<Sql> {
    let values = format!("{}, {}", placeholders(params + 1), dialect::now_micros(engine));
    dialect::insert_both(engine, insert.as_str(), &format!("event_log ({COLUMNS})"), &values, "position").map(Sql::from)
}

/// [`logged_insert`] after a statement that gives the record a number: `first`, a name for it and the statement, which returns the
/// number as the column `number`. It returns `position` and `number`.
pub fn numbered_insert(engine: Engine, first: (&str, &str), insert: &str, params: usize) -> Option<Sql> {
    let number = format!("(SELECT number FROM {})", dialect::quoted(first.0));
    let record = params + 1 + RECORD;
    let placeholder = |number: usize| format!("?{number}");
    let whole = format!("CAST(?{record} AS text) || CAST({number} AS text) || CAST(?{} AS text)", params + GIVEN + 1);
    let given =
        (params + 1..=params + GIVEN).map(|place| if place == record { whole.clone() } else { placeholder(place) });
    let values = format!("{}, {}", given.collect::<Vec<_>>().join(", "), dialect::now_micros(engine));
    let into = format!("event_log ({COLUMNS})");
    let returning = format!("position, {number} AS number");
    dialect::insert_after(engine, first, insert, (&into, &values), &returning).map(Sql::from)
}

/// `?first, …`, for the columns that are given.
fn placeholders(first: usize) -> String {
    let numbered: Vec<String> = (first..first + GIVEN).map(|number| format!("?{number}")).collect();
    numbered.join(", ")
}

/// The tasks of a followed log. Dropping it ends them.
#[derive(Debug)]
#[must_use = "dropping it ends the log's tasks"]
pub struct Following([tokio::task::AbortHandle; 2]);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

const LAST_SWEPT: &str = "SELECT swept_to, last_swept FROM event_log_state";

/// The last position that was removed from the log, and the event that was there, if known.
fn last_swept(state: Option<&Row>) -> Result<(i64, Option<Witness>), Error> {
    let Some(state) = state else { return Ok((0, None)) };
    let (swept_to, swept) = (state.get("swept_to")?, state.get::<Option<String>>("last_swept")?);
    // A server before 0.11 does not write it.
    let swept = swept.as_deref().and_then(Witness::parse).filter(|swept| swept.position == swept_to);
    Ok((swept_to, swept))
}

/// The state at the start: existing positions count as announced. Open positions below the last may still be filled.
async fn last_positions(db: &Db) -> Result<(Ledger, Witnesses), Error> {
    let last = "SELECT COALESCE((SELECT MAX(position) FROM event_log),
                    (SELECT MAX(swept_to) FROM event_log_state), 0) AS last";
    let last: i64 = db.query_opt(last, vec![]).await?.map_or(Ok(0), |row| row.get("last"))?;
    let (swept_to, swept) = last_swept(db.query_opt(LAST_SWEPT, vec![]).await?.as_ref())?;
    let mut witnesses = Witnesses::default();
    if let Some(swept) = swept {
        witnesses.note(swept);
    }
    let from = swept_to.max(last - LOOKED_BACK);
    let mut ledger = Ledger::after(from);
    let recent = "SELECT position, id FROM event_log WHERE position > ?1 AND position <= ?2 ORDER BY position";
    for row in db.query(recent, params![from, last]).await? {
        let position = row.get("position")?;
        ledger.announce(position);
        witnesses.note(Witness::new(position, &row.get::<String>("id")?));
    }
    Ok((ledger, witnesses))
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog")
            .field("db", &self.0.db)
            .field("name", &self.generation().name)
            .finish_non_exhaustive()
    }
}
