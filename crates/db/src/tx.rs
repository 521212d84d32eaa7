use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{Engine, postgres, sqlite};
use crate::row::RowRef;
use crate::{Changes, Error, Row, Sql, Value};

/// A transaction, or a read-only snapshot, that a closure given to [`Db::write`](crate::Db::write) or
/// [`Db::read`](crate::Db::read) works on.
///
/// It commits when the closure returns `Ok` and rolls back when it returns `Err`, panics or is dropped.
pub struct Tx {
    pub(crate) inner: Inner,
    pub(crate) after: Mutex<Vec<AfterCommit>>,
}

pub(crate) type AfterCommit = Box<dyn FnOnce() + Send>;

pub(crate) enum Inner {
    Sqlite(sqlite::OnThread),
    Postgres(postgres::Open),
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("engine", &self.engine()).finish_non_exhaustive()
    }
}

impl Tx {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner, after: Mutex::default() }
    }

    /// Which engine this is. For [`dialect`](crate::dialect), not for call sites.
    pub fn engine(&self) -> Engine {
        match self.inner {
            Inner::Sqlite(_) => Engine::Sqlite,
            Inner::Postgres(_) => Engine::Postgres,
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub async fn execute(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<u64, Error> {
        let sql = checked(sql)?;
        match &self.inner {
            Inner::Sqlite(on_thread) => on_thread.execute(&sql, &params),
            Inner::Postgres(open) => open.execute(&sql, &params).await,
        }
    }

    /// Inserts one row and returns the number that the database gave it. `sql` ends with
    /// [`dialect::numbering`](crate::dialect::numbering).
    pub async fn insert_numbered(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<i64, Error> {
        let sql = checked(sql)?;
        match &self.inner {
            Inner::Sqlite(on_thread) => {
                on_thread.execute(&sql, &params)?;
                on_thread.last_number()
            }
            Inner::Postgres(open) => open.number(&sql, &params).await,
        }
    }

    /// Runs a query, or a write with RETURNING, and returns its rows.
    pub async fn query(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        let sql = checked(sql)?;
        match &self.inner {
            Inner::Sqlite(on_thread) => on_thread.query(&sql, &params),
            Inner::Postgres(open) => open.query(&sql, &params).await,
        }
    }

    /// The first row, if there is one.
    pub async fn query_opt(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Passes each row to `each`, directly from the driver, and returns the result of folding `start`.
    pub async fn fold<A>(
        &self,
        sql: impl Into<Sql>,
        params: Vec<Value>,
        start: A,
        each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    ) -> Result<A, Error> {
        let sql = checked(sql)?;
        match &self.inner {
            Inner::Sqlite(on_thread) => on_thread.fold(&sql, &params, start, each),
            Inner::Postgres(open) => open.fold(&sql, &params, start, each).await,
        }
    }

    /// Runs an optional query, for at most `time`. Returns `false` if it was stopped or failed: `each` may have seen
    /// some rows, and the transaction continues.
    pub async fn fold_within(
        &self,
        time: &mut Duration,
        sql: impl Into<Sql>,
        params: Vec<Value>,
        each: impl FnMut(&RowRef<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let sql = checked(sql)?;
        let began = Instant::now();
        let asked = match &self.inner {
            Inner::Sqlite(on_thread) => on_thread.fold_within(*time, &sql, &params, each),
            Inner::Postgres(open) => open.fold_within(*time, &sql, &params, each).await?,
        };
        *time = time.saturating_sub(began.elapsed());
        match asked {
            Ok(()) => Ok(true),
            Err(Error::Deadline) => Ok(false),
            Err(error) => {
                tracing::debug!(%error, "an optional query of a transaction failed");
                Ok(false)
            }
        }
    }

    /// The single integer that `sql`, a SELECT, returns. In a [`Db::read`](crate::Db::read), on Postgres in
    /// [`Lane::Lists`](crate::Lane), it is cached until the next write to the database.
    pub async fn count(&self, sql: impl Into<Sql>, params: Vec<Value>) -> Result<i64, Error> {
        let sql = checked(sql)?;
        match &self.inner {
            Inner::Sqlite(on_thread) => on_thread.count(&sql, &params, None),
            Inner::Postgres(open) => open.count(&sql, &params).await,
        }
    }

    /// A [`count`](Self::count) that follows from `changes`. On SQLite, a count of 10,000 rows or more is not made again after each
    /// write, but once a second at most, and more rarely if it takes long: between, it is the last one with the changes since. What is
    /// written without a row in their log is counted after a second, or after 20 times as long as counting takes. On Postgres this is
    /// a [`count`](Self::count).
    pub async fn count_by(&self, sql: impl Into<Sql>, params: Vec<Value>, changes: &Changes) -> Result<i64, Error> {
        let sql = checked(sql)?;
        match &self.inner {
            Inner::Sqlite(on_thread) => on_thread.count(&sql, &params, Some(changes)),
            Inner::Postgres(open) => open.count(&sql, &params).await,
        }
    }

    /// A [`fold`](Self::fold), and a [`count`](Self::count) if it takes no extra time: with a server, both take one round
    /// trip. Without a server it returns no count, so that a caller who may not need it saves the cost.
    pub async fn fold_and_count<A>(
        &self,
        (sql, params): (impl Into<Sql>, Vec<Value>),
        start: A,
        each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
        (count, count_params): (impl Into<Sql>, Vec<Value>),
    ) -> Result<(A, Option<i64>), Error> {
        let (sql, count) = (checked(sql)?, checked(count)?);
        match &self.inner {
            Inner::Sqlite(on_thread) => Ok((on_thread.fold(&sql, &params, start, each)?, None)),
            Inner::Postgres(open) => {
                let both = open.fold_and_count((&sql, &params), start, each, (&count, &count_params)).await?;
                Ok((both.0, Some(both.1)))
            }
        }
    }

    /// All further statements of a [`Db::read`](crate::Db::read) in [`Lane::Lists`](crate::Lane) see the database as it is when the
    /// next one runs. On SQLite they do so anyway; in a write, and in other lanes on Postgres, this does nothing.
    pub fn one_snapshot(&self) {
        match &self.inner {
            Inner::Sqlite(_) => {}
            Inner::Postgres(open) => open.one_snapshot(),
        }
    }

    /// Runs `action` once the transaction is durable: in commit order on SQLite, where it runs on the writer thread and
    /// must be short. It is dropped on rollback, and never runs for a [`Db::read`](crate::Db::read).
    pub fn after_commit(&self, action: impl FnOnce() + Send + 'static) {
        self.after.lock().push(Box::new(action));
    }

    /// Begins a part that can be undone without the rest of the transaction. Parts are nested: the last one ends first.
    pub async fn begin_part(&self) -> Result<TransactionPart, Error> {
        self.execute_script("SAVEPOINT part_of_transaction").await?;
        Ok(TransactionPart { actions: self.after.lock().len() })
    }

    /// Ends a part and keeps what it did.
    pub async fn keep_part(&self, _: TransactionPart) -> Result<(), Error> {
        self.execute_script("RELEASE SAVEPOINT part_of_transaction").await
    }

    /// Ends a part and undoes what it did, with its [`after_commit`](Self::after_commit) actions. On Postgres the transaction accepts
    /// statements again afterwards.
    pub async fn undo_part(&self, part: TransactionPart) -> Result<(), Error> {
        self.after.lock().truncate(part.actions);
        let undo = "ROLLBACK TO SAVEPOINT part_of_transaction; RELEASE SAVEPOINT part_of_transaction";
        self.execute_script(undo).await
    }

    /// Runs several statements without parameters, for schema changes.
    pub(crate) async fn execute_script(&self, sql: &str) -> Result<(), Error> {
        match &self.inner {
            Inner::Sqlite(on_thread) => on_thread.execute_script(sql),
            Inner::Postgres(open) => open.execute_script(sql).await,
        }
    }
}

/// A part of a transaction, from [`Tx::begin_part`].
#[derive(Debug)]
#[must_use = "the part has to be kept or undone"]
pub struct TransactionPart {
    /// How many actions there were before it.
    actions: usize,
}

/// Runs an action that must not take the thread, or the answer to a committed write, down with it.
pub(crate) fn run_action(action: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(action)) {
        tracing::error!(panic = panic_message(&*panic), "an after-commit action panicked");
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?")
}

fn checked(sql: impl Into<Sql>) -> Result<Sql, Error> {
    let sql = sql.into();
    if sql.controls_transaction() {
        return Err(Error::other(sql.to_string(), "a transaction's closure cannot run transaction control or PRAGMA"));
    }
    Ok(sql)
}
