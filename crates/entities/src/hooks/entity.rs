use std::sync::Arc;

use async_trait::async_trait;
use gatewright_db::Tx;

use super::values::Values;
use crate::access::Action;
use crate::call::Call;
use crate::encode::Record;
use crate::error::Error;
use crate::operations::Transaction;
use crate::plan::Plan;
use crate::query::ListQuery;

/// A record as a JSON object, before it is sent.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// The context of a write.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'a> {
    /// The write's own transaction. Statements in it are committed together with the write, or not at all.
    pub tx: &'a Tx,
    /// The transaction as one of entities: for further operations on records in it.
    pub transaction: &'a Transaction<'a>,
    /// The caller.
    pub call: &'a Call,
    /// The entity.
    pub plan: &'a Arc<Plan>,
}

/// Code of a program before and after the operations on one entity, for every interface: REST, batches, tools,
/// [`Table`](crate::Table), [`Entities::transaction`](crate::Entities::transaction). By default every hook does
/// nothing. For the writes of all entities use a [`ChangeHook`](super::ChangeHook).
///
/// Hooks around a write run inside its transaction, separately for each record of a batch. An error rolls everything
/// back: nothing is written, and no event is emitted. They run after the access rules have allowed the write.
/// [`Error::from`] a [`Problem`](gatewright_http::Problem) is the answer to the caller. The transaction may run again
/// from its start, so effects outside of it must be repeatable. On SQLite all other writes wait for the hooks.
///
/// For records that a cascade deletes, `before_delete` and `after_delete` run. For records whose relation becomes null,
/// and for records that are restored from the trash, only `after_update` runs.
///
/// Hooks around a read run outside any transaction. They change the answers of get, list and exports, but not streams, events,
/// groups and related records. So do not use them to hide secrets: use `hidden`.
#[async_trait]
pub trait EntityHooks: Send + Sync + 'static {
    /// Whether the hooks before a write also see one whose values are invalid or missing, so that they can set them, and may name records
    /// that the caller may not read. Values that a hook has not set are refused after it. By default such a write is refused
    /// before, and a hook refers to what its caller may read.
    fn completes(&self) -> bool {
        false
    }

    /// Whether the hooks before this action leave the server. Then the access rule for creating must hold for the record as it was sent,
    /// before they run: nobody is told about a write that is refused anyway.
    fn leaves_server(&self, _action: Action) -> bool {
        false
    }

    /// Whether the hooks around reads do something. Otherwise reads do not stop for them.
    fn sees_reads(&self) -> bool {
        true
    }

    /// Before a record is created. `values` contains every field, including defaults, and may be changed.
    async fn before_create(&self, _writing: Writing<'_>, _values: &mut Values) -> Result<(), Error> {
        Ok(())
    }

    /// After a record was created.
    async fn after_create(&self, _writing: Writing<'_>, _record: &Record) -> Result<(), Error> {
        Ok(())
    }

    /// Before `record` is changed. `values` contains the fields to change, and may itself be changed.
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

    /// After one record was read. The changed record is the answer.
    async fn after_get(&self, _call: &Call, _record: &mut Object) -> Result<(), Error> {
        Ok(())
    }

    /// Before a list is read. `query` is the caller's query. The hook can add a condition ([`query.narrow("status",
    /// "published")`](ListQuery::narrow)). If the caller has a condition of the same name, the request is refused, so
    /// that callers cannot remove the hook's condition.
    async fn before_list(&self, _call: &Call, _query: &mut ListQuery) -> Result<(), Error> {
        Ok(())
    }

    /// After a page was read, or a part of an export. The counts of the answer stay unchanged.
    async fn after_list(&self, _call: &Call, _records: &mut Vec<Object>) -> Result<(), Error> {
        Ok(())
    }
}
