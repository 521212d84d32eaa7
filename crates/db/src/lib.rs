//! SQLite and Postgres behind one transaction type.
//!
//! SQL is written once, with `?1`-style placeholders, and runs on either engine:
//!
//! ```no_run
//! # async fn example() -> Result<(), gatewright_db::Error> {
//! use gatewright_db::{Db, Options, Tx, params};
//!
//! let db = Db::open("sqlite://notes.db", Options::default()).await.expect("opens");
//! let moved: u64 = db
//!     .write(async |tx: &Tx| -> Result<u64, gatewright_db::Error> {
//!         tx.execute("UPDATE notes SET folder = ?1 WHERE folder = ?2", params!["archive", "inbox"]).await
//!     })
//!     .await?;
//! # let _ = moved; Ok(()) }
//! ```
//!
//! # The path of a write
//!
//! On SQLite, [`Db::write`] hands the closure to the one writer thread, which polls it there: every statement runs at
//! once, without a hop. All closures that queued meanwhile share one `COMMIT` (group commit), and every caller is answered
//! after that commit is on the disk (`synchronous=FULL`). A closure that fails is undone alone: where it had changed
//! something, its group runs again with a savepoint for each. A closure that waits for something else than its own
//! statements is cut off at a deadline, alone.
//!
//! On Postgres the closure runs on a small pool of threads, in a transaction of a pooled connection, and is run again
//! when the server reports a serialization failure or a deadlock.
//!
//! # The path of a read
//!
//! On SQLite, one hop to a reader thread with a connection of its own; reads that queued together share a snapshot
//! which is younger than each of them. On Postgres, single statements are pipelined over a few shared connections.
//! Reads of different kinds have different readers ([`Lane`]), so that a list that takes long delays no sign-in.
//!
//! What differs between the engines is a named function in [`dialect`], never an `if` at a call site.
//!
//! # Features
//!
//! Both are on by default. Opening a database of an engine that the program was built without fails, and says so.
//!
//! - `sqlite`: SQLite, linked in, and backups of its files.
//! - `postgres`: Postgres, with TLS.
//!
//! `promote` needs both.

#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "some of what the engines share is used by one of them alone")
)]
#![cfg_attr(
    all(feature = "postgres", not(feature = "sqlite")),
    expect(irrefutable_let_patterns, reason = "transactions are of the one engine that is there")
)]

#[cfg(feature = "sqlite")]
mod backup;
mod db;
mod ddl;
mod decimal;
pub mod dialect;
mod engine;
mod error;
mod lane;
pub mod legacy;
mod migrate;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub mod promote;
mod row;
pub mod schema;
mod sql;
#[cfg(feature = "testing")]
pub mod testing;
mod tx;
mod value;

#[cfg(feature = "sqlite")]
pub use backup::{Restore, backup, backup_unnamed};
pub use db::{Db, Options};
pub use ddl::column_types;
pub use engine::Engine;
pub use engine::postgres::Listener;
pub use error::{BackupError, Error, OpenError};
pub use lane::{Lane, Share};
pub use migrate::{MigrateError, Step, migrate, migrations_table, pending};
pub use row::{FromValue, Row, RowRef, ValueRef};
pub use sql::Sql;
pub use tx::Tx;
pub use value::Value;

/// The target under which the text of every statement is logged, at trace level. Values are in none: they are bound.
pub const STATEMENT_LOG: &str = "gatewright_db::statement";
