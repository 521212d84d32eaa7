use async_trait::async_trait;
use gatewright_base::UserId;

use crate::users::BoxError;

/// The records of a program's accounts. If registered by [`Auth::account_records`](crate::Auth::account_records), they
/// are released or deleted with their account.
#[async_trait]
pub trait AccountRecords: Send + Sync + 'static {
    /// A table with records that prevent the deletion of the account, if there is one.
    async fn holder(&self, user: &UserId) -> Result<Option<String>, BoxError>;

    /// Deletes the account's records or removes the account from them, so that it can be deleted. It is called again if
    /// it failed or was interrupted, and once more after the account is gone.
    async fn release(&self, user: &UserId) -> Result<(), BoxError>;

    /// Deletes the account's records, whatever [`release`](Self::release) does with them: of a guest, whom nobody can become
    /// again. It is called again if it failed or was interrupted.
    async fn delete(&self, user: &UserId) -> Result<(), BoxError> {
        self.release(user).await
    }

    /// Whether [`release`](Self::release) leaves no record of `table` that names the account in `column`. Foreign keys
    /// of other columns prevent the deletion of the account.
    fn releases(&self, table: &str, column: &str) -> bool {
        let _ = (table, column);
        false
    }

    /// The next records that the account owns, from a position on, for its export. `None` at the end.
    async fn owned(&self, user: &UserId, at: &RecordsAt) -> Result<Option<RecordsPage>, BoxError> {
        let _ = (user, at);
        Ok(None)
    }

    /// The next records of others that name the account, from a position on, for an export by an operator. `None` at the end.
    async fn naming(&self, user: &UserId, at: &RecordsAt) -> Result<Option<RecordsPage>, BoxError> {
        let _ = (user, at);
        Ok(None)
    }

    /// Removes the account's data from copies of the records: logs, queues. Returns `false` while some are still
    /// needed; it is then called again.
    async fn forget(&self, user: &UserId) -> Result<bool, BoxError>;
}

/// A position in an account's records: a table, and a record in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordsAt {
    /// The table's number, from 0.
    pub table: usize,
    /// The id of the last record, or empty at the table's beginning.
    pub after: String,
}

/// A page of an account's records, of one table.
#[derive(Debug, Clone)]
pub struct RecordsPage {
    /// The table's name; `None` for a table that the export omits.
    pub table: Option<String>,
    /// Each a JSON object.
    pub records: Vec<axum::body::Bytes>,
    /// The position of the next page.
    pub next: RecordsAt,
}
