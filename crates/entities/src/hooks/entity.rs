use std::sync::Arc;

use async_trait::async_trait;
use gatewright_db::Tx;

use super::values::Values;
use crate::call::Call;
use crate::encode::Record;
use crate::error::Error;
use crate::plan::Plan;
use crate::query::ListQuery;

/// A record as a JSON object, as it is about to be answered.
pub type Object = serde_json::Map<String, serde_json::Value>;

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

/// What a program does before and after the operations on one entity, whatever the way they came: REST, batches, tools,
/// [`Table`](crate::Table), [`Entities::transaction`](crate::Entities::transaction). Every hook does nothing unless it is
/// written. What belongs to the writes of all entities is a [`ChangeHook`](super::ChangeHook).
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
#[async_trait]
pub trait EntityHooks: Send + Sync + 'static {
    /// Before a record is made. `values` holds every field, defaults included, and may be changed.
    async fn before_create(&self, _writing: Writing<'_>, _values: &mut Values) -> Result<(), Error> {
        Ok(())
    }

    /// After a record was made.
    async fn after_create(&self, _writing: Writing<'_>, _record: &Record) -> Result<(), Error> {
        Ok(())
    }

    /// Before `record` is changed. `values` holds the fields that are to change, and may itself be changed.
    async fn before_update(&self, _writing: Writing<'_>, _record: &Record, _values: &mut Values) -> Result<(), Error> {
        Ok(())
    }

    /// After a record was changed.
    async fn after_update(&self, _writing: Writing<'_>, _record: &Record) -> Result<(), Error> {
        Ok(())
    }

    /// Before `record` is deleted.
    async fn before_delete(&self, _writing: Writing<'_>, _record: &Record) -> Result<(), Error> {
        Ok(())
    }

    /// After a record was deleted; as it last was.
    async fn after_delete(&self, _writing: Writing<'_>, _record: &Record) -> Result<(), Error> {
        Ok(())
    }

    /// Before one record is read.
    async fn before_get(&self, _call: &Call, _id: &str) -> Result<(), Error> {
        Ok(())
    }

    /// After one record was read: what is left of it is answered.
    async fn after_get(&self, _call: &Call, _record: &mut Object) -> Result<(), Error> {
        Ok(())
    }

    /// Before a list is read. `query` is what the caller asks for. A condition that is added
    /// ([`query.narrow("status", "published")`](ListQuery::narrow)) narrows it, and one that the caller gave as well is refused,
    /// so that nobody can lift it.
    async fn before_list(&self, _call: &Call, _query: &mut ListQuery) -> Result<(), Error> {
        Ok(())
    }

    /// After a page was read. The counts of the answer stay as they are.
    async fn after_list(&self, _call: &Call, _records: &mut Vec<Object>) -> Result<(), Error> {
        Ok(())
    }
}
