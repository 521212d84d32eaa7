//! What can be done with records: each operation is a method of [`Table`], and there is no HTTP in any of them.
//!
//! Each takes a [`Call`] (who asks) and input as it came, and goes the same way: [`access`](crate::access) decides how
//! far the caller reaches; the input is parsed by the entity's [`Plan`](crate::Plan); SQL runs that is bounded by that reach;
//! and the event goes out once the write is durable. REST and tools are thin faces over these methods, so that they cannot
//! differ.
//!
//! # The path of a write
//!
//! [`write`] runs it. Where nothing else belongs into its transaction it is a single statement with RETURNING, which
//! both engines commit on their own. Where something does (a precondition, a relation to somebody's record, a
//! [`ChangeHook`](crate::hooks::ChangeHook), the entity's [`EntityHooks`](crate::hooks::EntityHooks)) it is one transaction. Either way the
//! record is encoded once, from the row that RETURNING gave or, where the database keeps what it is given, from the values of an
//! INSERT: the bytes that answer the writer are the bytes of the event.

mod allowed;
mod batch;
mod body;
mod cascade;
mod commit;
mod create;
mod current;
mod delete;
mod explain;
mod get;
mod leaving;
mod links;
mod list;
mod narrow;
mod precondition;
mod restore;
mod rules;
mod staging;
mod transaction;
mod transaction_table;
mod update;
mod view;
mod write;

pub use crate::call::{Call, Surface};
pub use crate::context::gate::ListLimits;
pub use crate::context::table::Table;
pub use crate::error::{Error, UnknownTable};
pub use batch::{Batch, MOST_ITEMS};
pub use body::Body;
pub(crate) use current::print;
pub(crate) use explain::explain;
pub use explain::{Check, Explanation, Term, Values as TermValues};
pub use leaving::{Owned, OwnedRecords};
pub(crate) use list::parameters::tags;
pub use list::{List, PagePlace, Total};
pub use precondition::IfMatch;
pub use transaction::Transaction;
pub use transaction_table::TransactionTable;
pub use view::Viewed;
