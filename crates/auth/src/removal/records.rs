use async_trait::async_trait;
use gatewright_base::UserId;

use crate::users::BoxError;

/// The records that a program keeps for its accounts. Given to [`Auth::account_records`](crate::Auth::account_records), they
/// follow an account that is deleted.
#[async_trait]
pub trait AccountRecords: Send + Sync + 'static {
    /// A table with records that must not lose the account, so that it is not deleted.
    async fn holder(&self, user: &UserId) -> Result<Option<String>, BoxError>;

    /// Deletes the account's records or takes the account out of them, so that it can be deleted. It is called again when
    /// it failed or was interrupted, and once more after the account is gone.
    async fn release(&self, user: &UserId) -> Result<(), BoxError>;

    /// Whether [`release`](Self::release) leaves no record of `table` that names the account in `column`. The foreign keys of
    /// all other columns refuse the deletion of an account that they lead to.
    fn releases(&self, table: &str, column: &str) -> bool {
        let _ = (table, column);
        false
    }

    /// Some of the records that the account owns, from a place on, as its export shows them. `None` at the end.
    async fn owned(&self, user: &UserId, at: &RecordsAt) -> Result<Option<RecordsPage>, BoxError> {
        let _ = (user, at);
        Ok(None)
    }

    /// Removes what copies of the records tell of the account: logs, queues. `false` while some are still needed; it is
    /// called again then.
    async fn forget(&self, user: &UserId) -> Result<bool, BoxError>;
}

/// A place among an account's records: in which table, and after which record there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordsAt {
    /// The table's number, from 0.
    pub table: usize,
    /// An id, or nothing at the table's beginning.
    pub after: String,
}

/// Some of an account's records, of one table.
#[derive(Debug, Clone)]
pub struct RecordsPage {
    /// The table's name; `None` for one that is not told of.
    pub table: Option<String>,
    /// Each a JSON object.
    pub records: Vec<axum::body::Bytes>,
    /// Where the next ones begin.
    pub next: RecordsAt,
}
