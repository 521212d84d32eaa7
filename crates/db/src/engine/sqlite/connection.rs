use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::time;
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::hooks::Wal;
use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef as Raw};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, ToSql};

use super::checkpoint::{self, Log, Mode};
use super::error::classify;
use super::limit;
use crate::resting::written;
use crate::row::{RowRef, Shape, Source, ValueRef};
use crate::{Error, OpenError, Options, Row, Sql, Value};

/// Prepared statements kept per connection. Preparing costs more than most statements take to run.
const STATEMENTS: usize = 512;
/// How many steps of SQLite's virtual machine run between two checks of the clock.
const STEPS_PER_LOOK: i32 = 4_000;

/// Opens a connection, when it is first needed.
pub(super) type Opener = Arc<dyn Fn() -> Result<Connection, OpenError> + Send + Sync>;

/// The path of the database file.
#[derive(Clone)]
pub(super) struct Location(PathBuf);

impl Location {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
        if path.is_empty() || path.contains(":memory:") || path.contains('\0') {
            let reason = "SQLite needs a file here (its data must survive the process); name one";
            return Err(OpenError::Url(reason.to_owned()));
        }
        if path.contains('?') {
            return Err(OpenError::Url("a SQLite URL takes no parameters".to_owned()));
        }
        Ok(Self(PathBuf::from(path)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn open_writer(&self, options: &Options) -> Result<Connection, OpenError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        if options.create_file {
            self.make_private();
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        } else if !self.0.exists() {
            return Err(OpenError::Missing { location: self.0.display().to_string() });
        }
        let mut connection = self.open(flags, options, |connection| {
            // The pragma returns the mode that is in effect: a read-only file stays unchanged.
            let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            if mode != "wal" {
                return Err(rusqlite::Error::InvalidParameterName(format!("journal mode stays {mode}")));
            }
            // The checkpointer moves the log, not the commit that makes it long.
            connection.execute_batch(
                "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 67108864;
                 BEGIN IMMEDIATE; COMMIT;",
            )
        })?;
        // After the pragma of automatic checkpoints, which would take the hook away.
        let note_length = |_: &mut Wal, pages: i32| {
            LOG_PAGES.set(i64::from(pages));
            Ok(())
        };
        connection.wal_hook(Some(note_length)).map_err(|error| self.unreachable(&error))?;
        Ok(connection)
    }

    /// Creates a missing file so that only its owner can read it: it contains password hashes. SQLite gives its log
    /// files the same permissions. Errors are ignored here: SQLite opens the file next and reports them.
    fn make_private(&self) {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let _there_already = options.open(&self.0);
    }

    pub(super) fn open_reader(&self, options: &Options) -> Result<Connection, OpenError> {
        self.open(OpenFlags::SQLITE_OPEN_READ_WRITE, options, |connection| {
            // Only the writer, which closes last, removes the log.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.execute_batch("PRAGMA query_only = ON;")
        })
    }

    /// For a reader without its own thread, which therefore waits for no lock.
    pub(super) fn open_reader_here(&self, options: &Options) -> Result<Connection, OpenError> {
        let mut connection = self.open_reader(&Options { busy_timeout: Duration::ZERO, ..options.clone() })?;
        watch(&mut connection);
        Ok(connection)
    }

    /// The database in `file`.
    pub(super) fn at(file: &Path) -> Self {
        Self(file.to_owned())
    }

    /// Opens a connection for reading the whole database, without a time limit.
    pub(super) fn open_copier(&self, flags: OpenFlags) -> Result<Connection, OpenError> {
        self.open(flags, &Options::default(), |_| Ok(()))
    }

    pub(super) fn open_checkpointer(&self, options: &Options) -> Result<Connection, OpenError> {
        self.open(OpenFlags::SQLITE_OPEN_READ_WRITE, options, |connection| {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.execute_batch("PRAGMA synchronous = FULL;")
        })
    }

    fn open(
        &self,
        flags: OpenFlags,
        options: &Options,
        set_up: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Connection, OpenError> {
        let open = || {
            let connection = Connection::open_with_flags(&self.0, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            connection.busy_timeout(options.busy_timeout)?;
            // Otherwise SQLite reads a quoted name that no column has as a text.
            for quoted_text in [DbConfig::SQLITE_DBCONFIG_DQS_DML, DbConfig::SQLITE_DBCONFIG_DQS_DDL] {
                connection.set_db_config(quoted_text, false)?;
            }
            connection.create_collation("decimal", crate::decimal::compare)?;
            let fixed = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
            super::folding::create_functions(&connection, fixed)?;
            connection.create_aggregate_function("exact_sum", 1, fixed, super::sum::ExactSum)?;
            super::number::create_functions(&connection, fixed)?;
            super::times::create_functions(&connection, fixed)?;
            super::words::create_functions(&connection, fixed)?;
            // Otherwise the planner looks at bound values, and prepares a statement again whenever they change: that
            // takes longer than most statements.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            connection.execute_batch(
                "PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON; PRAGMA temp_store = MEMORY;
                 PRAGMA cache_size = -16000; PRAGMA trusted_schema = OFF;",
            )?;
            set_up(&connection)?;
            Ok(connection)
        };
        open().map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &rusqlite::Error) -> OpenError {
        OpenError::Unreachable { location: self.0.display().to_string(), reason: explain(error, &self.0) }
    }
}

fn explain(error: &rusqlite::Error, path: &Path) -> String {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, NotADatabase, ReadOnly};
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match error.sqlite_error_code() {
        // Everything else that opens a file fails too.
        Some(CannotOpen) if has_no_descriptors(folder) => {
            "the process has no file descriptor left; raise its limit (`ulimit -n`, or `LimitNOFILE` of systemd)"
                .to_owned()
        }
        Some(CannotOpen) if !folder.exists() => format!("the folder {} does not exist; create it", folder.display()),
        Some(CannotOpen | ReadOnly) => {
            format!("no permission to write there; make the folder {} and the file writable", folder.display())
        }
        Some(NotADatabase) => "the file is not an SQLite database; name another one".to_owned(),
        Some(DatabaseBusy) => "another process has locked it; stop that process first".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether the limit of open files of the process, or of the machine, is reached.
fn has_no_descriptors(folder: &Path) -> bool {
    /// `ENFILE` and `EMFILE`, the same numbers on all Unix systems.
    const TOO_MANY: [i32; 2] = [23, 24];
    let refused = std::fs::read_dir(folder).err().and_then(|error| error.raw_os_error());
    cfg!(unix) && refused.is_some_and(|code| TOO_MANY.contains(&code))
}

thread_local! {
    static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) };
    /// Whether a statement here has left changes since the last [check](OnThread::take_changed).
    static CHANGED: Cell<bool> = const { Cell::new(false) };
    /// The bytes that statements here have written since the last [check](OnThread::take_written).
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
    /// The length of the write-ahead log after the last commit here that wrote something.
    static LOG_PAGES: Cell<i64> = const { Cell::new(0) };
}

/// Access to the connection of the calling thread.
///
/// It contains nothing, so that a [`Tx`](crate::Tx) can be part of a `Send` future, although that future is only ever
/// polled here. On another thread it finds no connection and fails.
#[derive(Clone, Copy)]
pub(crate) struct OnThread(());

/// Makes SQLite check between steps whether to continue.
fn watch(connection: &mut Connection) {
    // Without the handler there is no time limit, but everything else works: nothing to fail for.
    let _unlimited = connection.progress_handler(STEPS_PER_LOOK, Some(limit::is_over));
}

#[expect(clippy::unused_self, reason = "holding one is the proof of being on the right thread")]
impl OnThread {
    /// Makes `connection` the calling thread's.
    pub(super) fn settle(mut connection: Connection) -> Self {
        watch(&mut connection);
        CONNECTION.set(Some(connection));
        Self(())
    }

    /// Whether the calling thread has a connection.
    pub(super) fn is_settled() -> bool {
        CONNECTION.with_borrow(Option::is_some)
    }

    /// Makes `connection` the calling thread's during `work`, which must not panic. Returns `None` without a
    /// connection.
    pub(super) fn lend<T>(connection: &mut Option<Connection>, work: impl FnOnce(Self) -> T) -> Option<T> {
        CONNECTION.set(Some(connection.take()?));
        let result = work(Self(()));
        *connection = CONNECTION.take();
        Some(result)
    }

    /// Leaves the file at the path of the log as it is when the connection is closed.
    pub(super) fn keep_log(self) -> Result<(), Error> {
        self.with(|connection| {
            let kept = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            kept.map(|_| ()).map_err(|error| classify(error, "close"))
        })
    }

    /// Closes the calling thread's connection.
    pub(super) fn close(self) {
        CONNECTION.with(|slot| slot.borrow_mut().take());
    }

    fn with<T>(self, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        CONNECTION.with(|slot| match &*slot.borrow() {
            Some(connection) => work(connection),
            None => Err(Error::other("transaction", "it was used outside of the thread it belongs to")),
        })
    }

    /// Whether no transaction is open.
    pub(super) fn is_autocommit(self) -> bool {
        self.with(|connection| Ok(connection.is_autocommit())).unwrap_or(true)
    }

    /// Whether statements have left changes since the last call. A statement that failed and was undone by SQLite
    /// itself has left none.
    pub(super) fn take_changed(self) -> bool {
        CHANGED.take()
    }

    /// The bytes that statements have written since the last call: those of their parameters.
    pub(super) fn take_written(self) -> u64 {
        WRITTEN.take()
    }

    /// Runs one of the engine's own statements: BEGIN, COMMIT, SAVEPOINT and the like.
    pub(super) fn control(self, sql: &'static str) -> Result<(), Error> {
        self.with(|connection| {
            let run = || connection.prepare_cached(sql)?.execute([]).map(|_| ());
            run().map_err(|error| classify(error, sql))
        })
    }

    /// The pages in the write-ahead log after the last commit of this thread.
    pub(super) fn log_pages(self) -> i64 {
        LOG_PAGES.get()
    }

    /// Moves the write-ahead log into the database file.
    pub(super) fn checkpoint(self, mode: Mode) -> Result<Log, Error> {
        self.with(|connection| checkpoint::checkpoint(connection, mode))
    }

    pub(crate) fn execute_script(self, sql: &str) -> Result<(), Error> {
        CHANGED.set(true);
        self.with(|connection| connection.execute_batch(sql).map_err(|error| classify(error, sql)))
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method alone takes one lifetime, not any")]
    pub(crate) fn execute(self, sql: &Sql, params: &[Value]) -> Result<u64, Error> {
        tracing::trace!(target: crate::STATEMENT_LOG, "{sql}");
        self.with(|connection| {
            let run = |statement: &mut Statement<'_>| {
                bind(statement, params)?;
                noting_changes(connection, statement, params, |statement| statement.raw_execute())
            };
            prepared(connection, sql, run).map(|changed| changed as u64).map_err(|error| classify(error, sql.as_str()))
        })
    }

    /// The id of the row that was inserted last.
    pub(crate) fn last_number(self) -> Result<i64, Error> {
        self.with(|connection| Ok(connection.last_insert_rowid()))
    }

    pub(crate) fn query(self, sql: &Sql, params: &[Value]) -> Result<Vec<Row>, Error> {
        let mut shape: Option<Arc<Shape>> = None;
        self.fold(sql, params, Vec::new(), |rows, row| {
            let shape = shape.get_or_insert_with(|| match row.0 {
                Source::Sqlite(row) => shape_of(sql, row.as_ref()),
                Source::Postgres(_) | Source::Given { .. } => Arc::new(Shape::new(sql, std::iter::empty())),
            });
            rows.push(Row::from_ref(row, shape)?);
            Ok(())
        })
    }

    pub(crate) fn fold<A>(
        self,
        sql: &Sql,
        params: &[Value],
        start: A,
        mut each: impl FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    ) -> Result<A, Error> {
        tracing::trace!(target: crate::STATEMENT_LOG, "{sql}");
        self.with(|connection| {
            let failed = |error| classify(error, sql.as_str());
            let run = |statement: &mut Statement<'_>| {
                bind(statement, params)?;
                noting_changes(connection, statement, params, |statement| {
                    let mut rows = statement.raw_query();
                    let mut state = start;
                    while let Some(row) = rows.next()? {
                        if let Err(error) = each(&mut state, &RowRef(Source::Sqlite(row))) {
                            return Ok(Err(error));
                        }
                    }
                    Ok(Ok(state))
                })
            };
            prepared(connection, sql, run).map_err(failed)?
        })
    }

    /// Runs a query that is stopped after `time`, without failing the transaction.
    pub(crate) fn fold_within(
        self,
        time: Duration,
        sql: &Sql,
        params: &[Value],
        mut each: impl FnMut(&RowRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        limit::sooner(time, || self.fold(sql, params, (), |(), row| each(row)))
    }
}

thread_local! {
    static SHAPES: RefCell<HashMap<Sql, Arc<Shape>>> = RefCell::default();
}

/// The shape of a statement's rows: the one from its last run on this thread, if the columns are still the same.
fn shape_of(sql: &Sql, statement: &Statement<'_>) -> Arc<Shape> {
    SHAPES.with_borrow_mut(|shapes| {
        if let Some(shape) = shapes.get(sql)
            && shape.has(statement.column_names())
        {
            return shape.clone();
        }
        let shape = Arc::new(Shape::new(sql, statement.column_names()));
        if sql.is_worth_keeping() {
            if shapes.len() >= STATEMENTS {
                shapes.clear();
            }
            shapes.insert(sql.clone(), shape.clone());
        }
        shape
    })
}

/// Runs a statement, and notes what it writes and whether it leaves changes, even if `run` panics.
fn noting_changes<T>(
    connection: &Connection,
    statement: &mut Statement<'_>,
    params: &[Value],
    run: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if statement.readonly() {
        return run(statement);
    }
    WRITTEN.set(WRITTEN.get() + written(params));
    let (before, had_changed) = (connection.total_changes(), CHANGED.replace(true));
    let result = run(statement);
    // SQLite undoes a statement that violates a constraint, unless it is OR FAIL and has changed rows before.
    let broke = result.as_ref().is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation));
    if broke && connection.total_changes() == before {
        CHANGED.set(had_changed);
    }
    result
}

/// Runs `work` with the prepared statement, which is cached.
fn prepared<T>(
    connection: &Connection,
    sql: &Sql,
    work: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if sql.is_worth_keeping() {
        let mut kept = connection.prepare_cached(sql.as_str())?;
        work(&mut kept)
    } else {
        work(&mut connection.prepare(sql.as_str())?)
    }
}

/// Binds every parameter, and refuses a count that differs: SQLite would read the missing ones as NULL.
fn bind(statement: &mut Statement<'_>, params: &[Value]) -> rusqlite::Result<()> {
    if statement.parameter_count() != params.len() {
        return Err(rusqlite::Error::InvalidParameterCount(params.len(), statement.parameter_count()));
    }
    for (index, value) in params.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, Param(value))?;
    }
    Ok(())
}

struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Owned(Owned::Null),
            Value::Bool(value) => ToSqlOutput::Owned(Owned::Integer(i64::from(*value))),
            Value::Int(value) => ToSqlOutput::Owned(Owned::Integer(*value)),
            Value::Float(value) => ToSqlOutput::Owned(Owned::Real(*value)),
            Value::Text(value) => ToSqlOutput::Borrowed(Raw::Text(value.as_bytes())),
            Value::Json(value) => ToSqlOutput::Borrowed(Raw::Text(value.as_str().as_bytes())),
            Value::Bytes(value) => ToSqlOutput::Borrowed(Raw::Blob(value)),
            Value::Time(value) => ToSqlOutput::Owned(Owned::Text(time::format(*value))),
        })
    }
}

/// The names of the row's columns.
pub(crate) fn columns<'a>(row: &'a rusqlite::Row<'_>) -> Vec<&'a str> {
    row.as_ref().column_names().collect()
}

/// The bytes of the text in column `index` of `row`, not checked to be UTF-8.
pub(crate) fn text_bytes<'a>(row: &'a rusqlite::Row<'_>, index: usize) -> Option<&'a [u8]> {
    match row.get_ref(index) {
        Ok(Raw::Text(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Reads column `index` of `row` without copying it.
pub(crate) fn value<'a>(row: &'a rusqlite::Row<'_>, index: usize) -> Result<ValueRef<'a>, Error> {
    let corrupt = |found| Error::Corrupt {
        statement: row.as_ref().column_names().collect::<Vec<_>>().join(", "),
        column: row.as_ref().column_name(index).unwrap_or("?").to_owned(),
        found,
        expected: "a readable value",
    };
    Ok(match row.get_ref(index).map_err(|_| corrupt("no such column"))? {
        Raw::Null => ValueRef::Null,
        Raw::Integer(value) => ValueRef::Int(value),
        Raw::Real(value) => ValueRef::Float(value),
        Raw::Text(bytes) => {
            ValueRef::Text(Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| corrupt("text that is not UTF-8"))?))
        }
        Raw::Blob(bytes) => ValueRef::Bytes(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement that is prepared again for each new value takes longer to prepare than to run.
    #[test]
    fn plans_do_not_depend_on_bound_values() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location(folder.path().join("test.db"));
        for connection in [location.open_writer(&Options::default()), location.open_reader(&Options::default())] {
            assert!(connection.unwrap().db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG).unwrap());
        }
    }
}
