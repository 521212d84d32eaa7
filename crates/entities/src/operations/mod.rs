//! Operations on records. Each is a method of [`Table`] and independent of HTTP.
//!
//! Each takes a [`Call`] (the caller) and raw input, with the same steps: [`access`](crate::access) decides which
//! records the caller reaches; the entity's [`Plan`](crate::Plan) parses the input; SQL runs that is limited to these
//! records; and the event is published once the write is durable. REST and tools are thin layers over these methods, so
//! they cannot differ.
//!
//! # The path of a write
//!
//! [`write`] runs it. If nothing else belongs to its transaction, it is a single statement with RETURNING, which both
//! engines commit by themselves. If something does (a precondition, a relation to an owned record, a
//! [`ChangeHook`](crate::hooks::ChangeHook), the entity's [`EntityHooks`](crate::hooks::EntityHooks)) it is one
//! transaction. In both cases the record is encoded once, from the row of RETURNING or, if the database stores values
//! unchanged, from the values of an INSERT: the answer and the event contain the same bytes.

mod allowed;
mod batch;
mod body;
mod cascade;
mod commit;
mod create;
mod current;
mod delete;
mod explain;
mod files;
mod get;
mod items;
mod judge;
mod keeping;
mod leaving;
mod linked;
mod links;
mod list;
mod marks;
mod members;
mod memory;
mod mixed;
mod narrow;
mod numbered;
mod precondition;
mod previous;
mod restore;
mod rules;
mod sequences;
mod staging;
mod transaction;
mod transaction_table;
mod update;
mod upsert;
mod view;
mod words;
mod write;

pub use crate::call::{Call, Surface};
pub use crate::context::exports::ExportLimits;
pub use crate::context::gate::ListLimits;
pub use crate::context::table::Table;
pub use crate::error::{Error, UnknownTable};
pub use batch::{Batch, MAX_ITEMS};
pub use body::Body;
pub(crate) use current::print;
pub(crate) use explain::explain;
pub use explain::{Check, Explanation, Term, Values as TermValues};
pub use leaving::{Owned, OwnedRecords};
pub(crate) use list::parameters::tags;
pub use list::{Export, ExportFormat, List, PagePlace, Total};
pub use mixed::MixedBatch;
pub use precondition::IfMatch;
pub use transaction::Transaction;
pub use transaction_table::TransactionTable;
pub use upsert::OnConflict;
pub use view::Viewed;
