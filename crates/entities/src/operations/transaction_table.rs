use gatewright_base::canonical_id;

use super::body::Body;
use super::create::Create;
use super::delete::Delete;
use super::items::Known;
use super::list::{self, List};
use super::transaction::Transaction;
use super::update::Update;
use super::upsert::{OnConflict, Rights, Upsert};
use super::{get, write};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::{field_rights, reach};
use crate::context::table::Table;
use crate::encode::{Record, Stored};
use crate::error::{Error, UnknownTable};
use crate::plan::Statement;
use crate::query::ListQuery;

/// One entity within a [`Transaction`], from [`Transaction::table`]. Its operations read what the transaction sees,
/// including its own writes.
#[derive(Debug, Clone, Copy)]
pub struct TransactionTable<'a> {
    transaction: &'a Transaction<'a>,
    table: Table<'a>,
}

impl Transaction<'_> {
    /// The entity with this name or, if no entity has it, the one with this table.
    pub fn table(&self, name: &str) -> Result<TransactionTable<'_>, UnknownTable> {
        Ok(TransactionTable { transaction: self, table: self.entities.table(name)? })
    }

    /// The same as for single writes: a caller who may read a record but not change it learns that it exists.
    pub(super) async fn reveal_if_readable<T>(
        &self,
        table: Table<'_>,
        call: &Call,
        id: &str,
        written: Result<T, Error>,
    ) -> Result<T, Error> {
        if !matches!(written, Err(Error::NotFound)) || self.held(table, call, id).await.is_err() {
            return written;
        }
        match self.entities.read_hooks_of(table.plan) {
            Some(hooks) if hooks.before_get(call, &canonical_id(id)).await.is_err() => written,
            _ => Err(Error::NotChangeable),
        }
    }

    async fn held(&self, table: Table<'_>, call: &Call, id: &str) -> Result<Stored, Error> {
        let reach = reach(table, call, Action::Read).await?;
        let Statement { sql, params } = table.plan.sql.lock.within(&get::known(id)?, &reach);
        write::one(self.tx, table.plan, &sql, params).await?.ok_or(Error::NotFound)
    }
}

impl TransactionTable<'_> {
    /// The record with that id, if the caller reaches it. It is locked until the end of the transaction.
    ///
    /// Fails like [`Table::get`].
    pub async fn get(self, call: &Call, id: &str) -> Result<Record, Error> {
        let record = self.transaction.held(self.table, call, id).await?;
        let rights = field_rights(self.table.entities, call).await?;
        Ok(record.seen_by(rights.of(self.table.plan.index)))
    }

    /// One page of the records that the caller reaches, as the transaction sees them. Nothing limits its time except the transaction's
    /// own limits, and hooks around lists do not run.
    ///
    /// Fails like [`Table::list`].
    pub async fn list(self, call: &Call, query: &ListQuery) -> Result<List, Error> {
        list::within(self.transaction.tx, self.table, call, query).await
    }

    /// Creates a record, or changes the one that has the same values of a unique set of fields; and whether it is new.
    ///
    /// Fails like [`Table::upsert`], and with [`Error::Taken`] if another transaction created the record in between.
    pub async fn upsert(
        self,
        call: &Call,
        body: impl Into<Body<'_>>,
        on_conflict: &OnConflict,
    ) -> Result<(Record, bool), Error> {
        let body = body.into();
        let rights = Rights::of(self.table, call, on_conflict).await?;
        let upsert = Upsert::read(self.table, call, &rights, &body).await?;
        upsert.knowing(&Known::default()).perform(self.transaction).await
    }

    /// Creates a record.
    ///
    /// Fails like [`Table::create`]. After a failure, let the whole transaction fail: on Postgres it accepts no further
    /// statements after the database has refused a write.
    pub async fn create(self, call: &Call, body: impl Into<Body<'_>>) -> Result<Record, Error> {
        let body = body.into();
        Create::prepare(self.table, Some(self.transaction.tx), call, &body).await?.perform(self.transaction).await
    }

    /// Changes the fields that a JSON object names.
    ///
    /// Fails like [`Table::update`].
    pub async fn update(self, call: &Call, id: &str, body: impl Into<Body<'_>>) -> Result<Record, Error> {
        let body = body.into();
        let update = Update::prepare(self.table, Some(self.transaction.tx), call, id, &body, None).await;
        let updated = match update {
            Ok(update) => update.perform(self.transaction).await,
            Err(error) => Err(error),
        };
        self.transaction.reveal_if_readable(self.table, call, id, updated).await
    }

    /// Deletes a record and its cascade, and returns the record as it was.
    ///
    /// Fails like [`Table::delete`].
    pub async fn delete(self, call: &Call, id: &str) -> Result<Record, Error> {
        let deleted = match Delete::prepare(self.table, call, id, None).await {
            Ok(delete) => delete.perform(self.transaction).await.map(|record| delete.seen(record)),
            Err(error) => Err(error),
        };
        self.transaction.reveal_if_readable(self.table, call, id, deleted).await
    }
}
