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
//! On SQLite, [`Db::write`] passes the closure to the only writer thread, which polls it: every statement runs there,
//! without a thread switch. All queued closures share one `COMMIT` (group commit), and callers get their results after
//! that commit is on the disk (`synchronous=FULL`). A closure that fails is rolled back without the others: if it had
//! changed something, its group runs again with a savepoint for each. A closure that waits for anything except its own
//! statements is cancelled at a deadline, without the others.
//!
//! On Postgres the closure runs on a small pool of threads, in a transaction of a pooled connection, and is run again
//! when the server reports a serialization failure or a deadlock.
//!
//! # The path of a read
//!
//! On SQLite, a reader thread with its own connection; reads that queued together share a snapshot from after their
//! requests. On Postgres, single statements are pipelined over a few shared connections. Reads of different kinds have
//! different readers ([`Lane`]), so that a slow list does not delay sign-ins.
//!
//! Each difference between the engines is a named function in [`dialect`], never an `if` at a call site.
//!
//! # Features
//!
//! Both are on by default. Opening a database of an engine that is not compiled in fails with an error that names the
//! feature.
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
mod changes;
mod db;
mod ddl;
mod decimal;
pub mod dialect;
mod engine;
mod error;
mod export;
pub mod inspect;
pub mod json;
mod lane;
pub mod legacy;
mod migrate;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub mod promote;
mod readable;
mod resting;
mod row;
pub mod schema;
mod sql;
#[cfg(feature = "testing")]
pub mod testing;
mod tx;
mod value;

#[cfg(feature = "sqlite")]
pub use backup::{Restore, backup, backup_unnamed};
pub use changes::Changes;
pub use db::{Db, Options};
pub use ddl::column_types;
pub use engine::Engine;
pub use engine::postgres::Listener;
#[cfg(feature = "sqlite")]
pub use engine::sqlite::lock_file;
pub use error::{BackupError, Error, OpenError};
pub use export::Export;
pub use lane::{Lane, Share};
pub use migrate::{MigrateError, Step, migrate, migrations_table, pending};
pub use readable::{ReadablePage, readable, unless_unreadable};
pub use row::{FromValue, Row, RowRef, ValueRef};
pub use sql::Sql;
pub use tx::{TransactionPart, Tx};
pub use value::Value;

/// The target under which the text of every statement is logged, at trace level. It never contains values, because they
/// are bound.
pub const STATEMENT_LOG: &str = "gatewright_db::statement";
