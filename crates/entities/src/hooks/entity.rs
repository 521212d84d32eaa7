//! A host's own part in the operations of one entity.
//!
//! ```
//! use gatewright_entities::hooks::{HookFuture, Hooks, Values, Writing};
//! use gatewright_entities::operations::Error;
//! use gatewright_http::Problem;
//!
//! struct Slugs;
//!
//! impl Hooks for Slugs {
//!     fn before_create<'a>(&'a self, _: Writing<'a>, values: &'a mut Values) -> HookFuture<'a> {
//!         Box::pin(async move {
//!             let title = values.get("title");
//!             let title = title.as_ref().and_then(|title| title.as_str()).unwrap_or_default();
//!             if title.contains("spam") {
//!                 return Err(Error::from(Problem::forbidden("not here")));
//!             }
//!             let slug = title.to_lowercase().replace(' ', "-");
//!             values.set("slug", slug)
//!         })
//!     }
//! }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gatewright_db::Tx;

use super::change::HookFuture;
use super::values::Values;
use crate::call::Call;
use crate::encode::Record;
use crate::error::Error;
use crate::plan::Plan;

/// A record as a JSON object, as it is about to be answered.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// The future of a hook around a read.
pub type ReadFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

/// The circumstances of a write.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'a> {
    /// The write's own transaction. What is done in it is done together with the write, or not at all.
    pub tx: &'a Tx,
    /// Who asks.
    pub call: &'a Call,
    /// The entity.
    pub plan: &'a Arc<Plan>,
}

/// What a host does before and after the operations on one entity, whatever the way they came: REST, batches, tools,
/// [`Entities::transaction`](crate::Entities::transaction). Every hook does nothing unless it is written.
///
/// Those around a write run inside its transaction, for each record of a batch on its own. An error rolls everything
/// back: nothing is written, and no event is emitted. They run after the access rules have let the caller in, and
/// [`Error::from`] a [`Problem`](gatewright_http::Problem) is what the caller is answered. The transaction may run again
/// from its start, so that what they do elsewhere must bear that; on SQLite everybody's writes wait for them.
///
/// Records that are deleted because another one is have their `before_delete` and `after_delete` run; those whose relation
/// to it is emptied, and those that are taken out of the trash, `after_update` alone.
///
/// Those around a read run outside any transaction. They shape the answers of get and list; streams, events, groups
/// and related records do not pass through them, so that they are no place for secrets: that is what `hidden` is for.
pub trait Hooks: Send + Sync + 'static {
    /// Before a record is made. `values` holds every field, defaults included, and may be changed.
    fn before_create<'a>(&'a self, _writing: Writing<'a>, _values: &'a mut Values) -> HookFuture<'a> {
        nothing()
    }

    /// After a record was made.
    fn after_create<'a>(&'a self, _writing: Writing<'a>, _record: &'a Record) -> HookFuture<'a> {
        nothing()
    }

    /// Before `record` is changed. `values` holds the fields that are to change, and may itself be changed.
    fn before_update<'a>(
        &'a self,
        _writing: Writing<'a>,
        _record: &'a Record,
        _values: &'a mut Values,
    ) -> HookFuture<'a> {
        nothing()
    }

    /// After a record was changed.
    fn after_update<'a>(&'a self, _writing: Writing<'a>, _record: &'a Record) -> HookFuture<'a> {
        nothing()
    }

    /// Before `record` is deleted.
    fn before_delete<'a>(&'a self, _writing: Writing<'a>, _record: &'a Record) -> HookFuture<'a> {
        nothing()
    }

    /// After a record was deleted; as it last was.
    fn after_delete<'a>(&'a self, _writing: Writing<'a>, _record: &'a Record) -> HookFuture<'a> {
        nothing()
    }

    /// Before one record is read.
    fn before_get<'a>(&'a self, _call: &'a Call, _id: &'a str) -> ReadFuture<'a> {
        Box::pin(async { Ok(()) })
    }

    /// After one record was read: what is left of it is answered.
    fn after_get<'a>(&'a self, _call: &'a Call, _record: &'a mut Object) -> ReadFuture<'a> {
        Box::pin(async { Ok(()) })
    }

    /// Before a list is read. `query` is its parameters; one that is added (`status`, `published`) narrows it, and one
    /// that the caller gave as well is refused, so that nobody can lift it.
    fn before_list<'a>(&'a self, _call: &'a Call, _query: &'a mut Vec<(String, String)>) -> ReadFuture<'a> {
        Box::pin(async { Ok(()) })
    }

    /// After a page was read. The counts of the answer stay as they are.
    fn after_list<'a>(&'a self, _call: &'a Call, _records: &'a mut Vec<Object>) -> ReadFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

fn nothing<'a>() -> HookFuture<'a> {
    Box::pin(async { Ok(()) })
}
