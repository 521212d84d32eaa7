//! The durable lane: events that must not be lost.
//!
//! A write stages its event in its own transaction ([`Outbox::stage`], [`Outbox::append`]), so that write and event are
//! committed together. After the commit a [`Relay`] delivers the row to every consumer that is declared for its type,
//! independently: at least once, with retries after growing pauses, until the handler returns without an error or the
//! limit of attempts is reached. The live [`Bus`](crate::Bus) is independent of the outbox.
//!
//! ```no_run
//! # async fn example(db: gatewright_db::Db) -> Result<(), Box<dyn std::error::Error>> {
//! use gatewright_base::Ambient;
//! use gatewright_db::Tx;
//! use gatewright_events::outbox::{Event, Outbox, OutboxOptions, StageError};
//!
//! let outbox = Outbox::open(db.clone(), Ambient::system(), OutboxOptions::default()).await?;
//! let relay = outbox
//!     .relay()
//!     .consumer("mailer", "order.placed", async |event: Event| -> Result<(), std::io::Error> {
//!         println!("order {:?}", event.payload().map(|map| map["number"].clone()));
//!         Ok(())
//!     })?
//!     .start();
//!
//! let staging = outbox.clone();
//! db.write(async move |tx: &Tx| -> Result<(), StageError> {
//!     tx.execute("INSERT INTO orders (number) VALUES (7)", vec![]).await?;
//!     let payload = serde_json::json!({ "number": 7 });
//!     staging.append(tx, "order.placed", payload.as_object().expect("an object")).await?;
//!     Ok(())
//! })
//! .await?;
//! # relay.stop(std::time::Duration::from_secs(10)).await; Ok(()) }
//! ```
//!
//! # The path of a row, file by file
//!
//! `stage` writes it and passes its id on after the commit. `expander` creates a delivery for each consumer: at once
//! for rows of this process, and by polling the pending rows for those of other processes or from before a crash. A
//! `worker` for each consumer claims deliveries by lease, reads the payloads that fit into memory (`payloads`), runs the handler, renews the lease meanwhile, and settles;
//! `pull` returns deliveries to callers. `ordered` has the claims of consumers that get the events of a record one after the other. `janitor` marks dispatched rows, abandons deliveries without a handler, and
//! purges. `room` limits the bytes of all rows. `transition` has the state machine of a delivery, `deliveries` and `rows` have it in SQL, and `protocol`
//! tests every order in which relays, crashes and slow handlers can interleave.
//!
//! Leases use the replicas' own clocks. If these differ by more than a lease, a delivery may be handled twice at the
//! same time; it is never lost, and a replaced owner cannot settle it. The deliveries of a dead relay are released
//! within seconds (`takeover`), without comparing clocks.

mod admin;
mod consumer;
mod context;
mod counters;
mod deliveries;
mod event;
mod expander;
mod facts;
mod forget;
mod janitor;
mod options;
mod ordered;
mod outage;
mod payloads;
#[cfg(test)]
mod protocol;
pub mod pull;
mod relay;
mod room;
mod rows;
mod schema;
mod stage;
mod takeover;
pub mod transition;
mod unsettled;
#[cfg(feature = "webhook")]
pub mod webhook;
mod worker;

use std::fmt;
use std::sync::Arc;

use gatewright_base::Ambient;
use gatewright_db::{Db, MigrateError, Share};

pub use admin::{DeliveryRecord, ListRows, ReplayError, RowRecord, Stats};
pub use consumer::{Consumer, ConsumerError, Failure, Hopeless};
pub use counters::{ConsumerCounts, Counts};
pub use event::{Event, MalformedPayload};
pub use facts::{Actor, ActorKind, Appending, Facts};
pub use options::{OutboxOptions, Previous};
pub use pull::{PullConsumer, Pulls};
pub use relay::{Relay, RelayBuilder};
pub use room::OutboxFull;
pub use schema::{COMPONENT, STEPS};
pub use stage::StageError;
pub use transition::{Backoff, DeliveryStatus, RowStatus};
pub use unsettled::ListDeliveries;

use counters::Counters;
use room::Room;
use stage::Staged;

/// The outbox of a database. Cheap to clone.
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

struct Inner {
    db: Db,
    ambient: Ambient,
    options: OutboxOptions,
    staged: Staged,
    room: Arc<Room>,
    counters: Arc<Counters>,
}

/// Why an outbox could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The tables could not be created.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// The database query failed.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
    /// Making tables is switched off, and this is not there.
    #[error("the outbox needs {0}; run `gatewright migrate`, or make it as the documentation of the outbox shows")]
    Missing(String),
}

impl Outbox {
    /// Opens the outbox of `db` and brings its tables up to date, or checks them. Needs a Tokio runtime.
    pub async fn open(db: Db, ambient: Ambient, options: OutboxOptions) -> Result<Self, InitError> {
        let options = options.sane();
        schema::prepare(&db, options.create_tables).await?;
        let room = Arc::new(Room::new(options.max_bytes));
        let staged = Staged::new(&db, &ambient, &room);
        Ok(Self(Arc::new(Inner { db, ambient, options, staged, room, counters: Arc::default() })))
    }

    /// A relay for this process, to which consumers are added before it starts.
    pub fn relay(&self) -> RelayBuilder {
        RelayBuilder::new(self.clone())
    }

    /// Checks whether a caller may stage another event. Call it before a write, so that a refusal costs no transaction. `share`
    /// is that of the caller; the default one is the program's own.
    pub fn admit(&self, share: Share) -> Result<(), OutboxFull> {
        self.0.room.admit(share).inspect_err(|_| self.0.counters.refused())
    }

    /// The bytes of the outbox when they were last counted, and of what this process has staged since. `None` before the first
    /// count, and without [`OutboxOptions::max_bytes`].
    pub fn bytes(&self) -> Option<u64> {
        self.0.room.bytes()
    }

    /// The most bytes, if there is a limit.
    pub fn max_bytes(&self) -> Option<u64> {
        self.0.room.most()
    }

    /// Counters of this process since its start.
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    fn now(&self) -> jiff::Timestamp {
        transition::micros(self.0.ambient.now())
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("db", &self.0.db).field("options", &self.0.options).finish_non_exhaustive()
    }
}
