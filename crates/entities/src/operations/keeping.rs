//! Keeps the answer of a write in the write's own transaction.

use super::transaction::Transaction;
use crate::answers::{self, Keeping, Written};
use crate::error::Error;
use crate::plan::Plan;

impl Transaction<'_> {
    /// Keeps the answer that a single write has, if its call asks for that. Fails if the key is another request's by now.
    pub(super) async fn keep(
        &self,
        keeping: Option<&Keeping>,
        plan: &Plan,
        written: &Written<'_>,
    ) -> Result<(), Error> {
        if keeping.is_none() {
            return Ok(());
        }
        let records = match written {
            Written::Record(record, _) => vec![answers::record(&plan.table, record.id())],
            Written::Deleted(_) | Written::Batch(_) => Vec::new(),
        };
        self.keep_all(keeping, written, &records).await
    }

    /// The same with the records that the answer contains.
    pub(super) async fn keep_all(
        &self,
        keeping: Option<&Keeping>,
        written: &Written<'_>,
        records: &[String],
    ) -> Result<(), Error> {
        let Some(Keeping { claim, render }) = keeping else { return Ok(()) };
        if answers::store(self.tx, claim, &render(written), records).await? {
            Ok(())
        } else {
            Err(Error::KeyInProgress)
        }
    }
}
