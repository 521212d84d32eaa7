//! Lists by themselves and within a transaction.

use gatewright_db::{Db, Error as DatabaseError, Lane, Tx};

use super::{List, ready};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::reach;
use crate::context::table::Table;
use crate::error::Error;
use crate::query::ListQuery;

/// Where a list is read.
pub(super) enum Source<'a> {
    /// In the lane of lists.
    Lane(Db),
    /// In a transaction, which sees its own writes.
    Transaction(&'a Tx),
}

impl Source<'_> {
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl AsyncFn(&Tx) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        match self {
            Self::Lane(db) => db.read(work).await,
            Self::Transaction(tx) => work(tx).await,
        }
    }
}

/// A list within a transaction.
pub(in crate::operations) async fn within(
    tx: &Tx,
    table: Table<'_>,
    call: &Call,
    asked: &ListQuery,
) -> Result<List, Error> {
    let reach = reach(table, call, Action::Read).await?;
    let (reading, paging) = ready(table, call, asked, reach).await?;
    reading.run(table.entities, &Source::Transaction(tx), paging).await
}

/// A list by itself.
pub(super) async fn list(table: Table<'_>, call: &Call, asked: &ListQuery) -> Result<List, Error> {
    let reach = reach(table, call, Action::Read).await?;
    let _entered = table.entities.list_gate().enter(call)?;
    let (reading, paging) = ready(table, call, asked, reach).await?;
    let source = Source::Lane(table.entities.db().clone().lane(Lane::Lists(reading.share)));
    let list = reading.run(table.entities, &source, paging).await;
    list.map_err(|error| match error {
        Error::Database(DatabaseError::Deadline) => Error::ListTooSlow,
        error => error,
    })
}
