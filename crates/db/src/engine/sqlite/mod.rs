//! SQLite: one writer thread with group commit ([`writer`]), reader threads ([`reader`]), each with a connection that
//! never leaves its thread ([`connection`]), a thread that moves the write-ahead log ([`checkpoint`]). [`claim`] prevents
//! a second server, [`backup`] copies whole files. [`task`] polls an async closure on such a thread.

pub(crate) mod backup;
mod checkpoint;
mod claim;
mod connection;
mod error;
mod export;
mod files;
mod folding;
mod here;
mod limit;
mod number;
mod queue;
mod reader;
mod sum;
mod task;
mod times;
mod totals;
mod words;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub(crate) use connection::{OnThread, columns, text_bytes, value};
pub(crate) use export::Pieces;
pub(crate) use rusqlite::Row as DriverRow;

use crate::row::RowRef;
use crate::{Error, Lane, OpenError, Options, Row, Share, Sql, Tx, Value};
use checkpoint::Checkpointer;
use claim::Claim;
pub use claim::lock_file;
use connection::{Location, Opener};
use export::Exports;
use files::Files;
use here::Here;
use limit::{Limit, Waiting};
use reader::Readers;
use task::{Deadlines, TxJob};
use writer::{StatementJob, Writer};

/// How long reads, and then writes, that have begun may take to finish when the database is closed.
const CLOSING: Duration = Duration::from_secs(5);
/// The longest turn of a caller at the writer. It may run a second time, if its group is undone.
const CALLER_TURN: Duration = Duration::from_millis(2_500);
/// The threads of [`Lane::Identity`]. Its reads are short.
const IDENTITY_READERS: usize = 2;

pub(crate) struct Sqlite {
    threads: Arc<Threads>,
    files: Arc<Files>,
    path: PathBuf,
    claim: Mutex<Option<Claim>>,
    deadlines: Deadlines,
    list_timeout: Duration,
    search_bytes: u64,
}

struct Threads {
    writer: Writer,
    here: Arc<Here>,
    records: Readers,
    identity: Readers,
    lists: Readers,
    exports: Arc<Exports>,
}

impl Threads {
    /// Readers first: their snapshots would keep the writer from emptying the log.
    fn close(&self, limit: Duration) {
        self.here.close();
        self.exports.close(limit);
        for readers in [&self.lists, &self.records, &self.identity] {
            readers.close(limit);
        }
        self.writer.close(limit);
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // One of the threads cannot wait for itself.
        let limit = if task::refuse_nested().is_ok() { CLOSING } else { Duration::ZERO };
        self.threads.close(limit);
    }
}

/// Checks the form of a URL.
pub(crate) fn check_url(url: &str) -> Result<(), OpenError> {
    Location::parse(url).map(|_| ())
}

impl Sqlite {
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self, OpenError> {
        let location = Location::parse(url)?;
        let deadlines = Deadlines { waiting: options.write_deadline, statement: options.statement_timeout };
        let cores = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
        let (list_timeout, search_bytes) = (options.list_timeout, options.search_bytes);
        let export_bytes = options.export_bytes;
        let options = options.clone();
        let handle = tokio::runtime::Handle::current();
        // Opening waits for locks and disks, so it happens away from the runtime's own threads.
        tokio::task::spawn_blocking(move || {
            let connection = location.open_writer(&options)?;
            let (place, settings) = (location.clone(), options.clone());
            let here = Arc::new(Here::new(cores, Arc::new(move || place.open_reader_here(&settings))));
            let files = Arc::new(Files::of(location.path()));
            let checkpointer = location.open_checkpointer(&options)?;
            let checkpointer = Checkpointer::start(checkpointer, here.clone(), files.clone());
            let writer = Writer::start(connection, checkpointer, files.clone(), handle.clone());
            let path = location.path().to_owned();
            let open: Opener = Arc::new(move || location.open_reader(&options));
            let readers = |name, count, most| Readers::start(name, &open, count, most, &handle);
            let threads = Arc::new(Threads {
                writer,
                here,
                records: readers("records", cores, cores),
                identity: readers("identity", IDENTITY_READERS, IDENTITY_READERS),
                // One share can use all cores, and leaves as many threads for others.
                lists: readers("lists", 2 * cores, cores),
                exports: Arc::new(Exports::new(open.clone(), files.clone(), export_bytes)),
            });
            Ok(Self { threads, files, path, claim: Mutex::default(), deadlines, list_timeout, search_bytes })
        })
        .await
        .unwrap_or_else(|panic| {
            Err(OpenError::Unreachable { location: "sqlite".to_owned(), reason: panic.to_string() })
        })
    }

    pub(crate) fn claim(&self) -> Result<(), OpenError> {
        let mut claim = self.claim.lock();
        if claim.is_none() {
            *claim = Some(Claim::take(&self.path)?);
        }
        Ok(())
    }

    /// Fails if a file of the database was removed or replaced. Reads three entries of folders.
    pub(crate) fn check_files(&self) -> Result<(), Error> {
        self.files.check_open()
    }

    pub(crate) async fn close(&self) {
        self.files.close();
        let threads = self.threads.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || threads.close(CLOSING)).await {
            tracing::error!(%error, "closing the database failed");
        }
        self.claim.lock().take();
    }

    pub(crate) async fn write<T, E, F>(&self, share: Share, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        task::refuse_nested()?;
        self.files.known()?;
        let (job, answer) = TxJob::new(work, Deadlines { statement: self.turn_of(share), ..self.deadlines });
        self.threads.writer.submit(share, Box::new(job))?;
        received(answer).await
    }

    pub(crate) async fn read<T, E, F>(&self, lane: Lane, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        task::refuse_nested()?;
        self.files.known()?;
        let (_waiting, limit) = self.limit(lane);
        let (job, answer) = TxJob::new(work, self.deadlines);
        let mut job = job.limited(limit);
        let read = Box::new(move |_: &OnThread| {
            task::run_once(&mut job);
            writer::Job::finish(Box::new(job), Ok(()));
        });
        self.readers(lane).submit(lane.share(), read);
        received(answer).await
    }

    /// Runs one query whose rows become bytes.
    pub(crate) fn export<F>(&self, sql: Sql, params: Vec<Value>, time: Duration, write: F) -> Pieces
    where
        F: FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error> + Send + 'static,
    {
        self.threads.exports.start((sql, params), time, write)
    }

    pub(crate) async fn execute(&self, share: Share, sql: Sql, params: Vec<Value>) -> Result<u64, Error> {
        self.statement(share, move |on_thread| on_thread.execute(&sql, &params), |_| (), false).await
    }

    pub(crate) async fn write_rows(&self, share: Share, sql: Sql, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.statement(share, move |on_thread| on_thread.query(&sql, &params), |_| (), true).await
    }

    pub(crate) async fn write_fold<A, F, C>(
        &self,
        share: Share,
        sql: Sql,
        params: Vec<Value>,
        start: A,
        each: F,
        after_commit: C,
    ) -> Result<A, Error>
    where
        A: Clone + Send + 'static,
        F: Fn(&mut A, &RowRef<'_>) -> Result<(), Error> + Send + 'static,
        C: FnOnce(&A) + Send + 'static,
    {
        let run = move |on_thread: &OnThread| on_thread.fold(&sql, &params, start.clone(), &each);
        self.statement(share, run, after_commit, true).await
    }

    pub(crate) async fn query(&self, lane: Lane, sql: Sql, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.reading(lane, move |on_thread| on_thread.query(&sql, &params)).await
    }

    pub(crate) async fn fold<A, F>(
        &self,
        lane: Lane,
        sql: Sql,
        params: Vec<Value>,
        start: A,
        each: F,
    ) -> Result<A, Error>
    where
        A: Clone + Send + 'static,
        F: Fn(&mut A, &RowRef<'_>) -> Result<(), Error> + Send + 'static,
    {
        self.reading(lane, move |on_thread| on_thread.fold(&sql, &params, start.clone(), &each)).await
    }

    async fn statement<T: Send + 'static>(
        &self,
        share: Share,
        run: impl Fn(&OnThread) -> Result<T, Error> + Send + 'static,
        after_commit: impl FnOnce(&T) + Send + 'static,
        returning: bool,
    ) -> Result<T, Error> {
        task::refuse_nested()?;
        self.files.known()?;
        let (job, answer) = StatementJob::new(run, after_commit, self.turn_of(share), returning);
        self.threads.writer.submit(share, Box::new(job))?;
        received(answer).await
    }

    /// How long a share's turn at the writer may take. Everybody else's writes wait for it.
    fn turn_of(&self, share: Share) -> Duration {
        let own = share == Share::default();
        if own { self.deadlines.statement } else { self.deadlines.statement.min(CALLER_TURN) }
    }

    async fn reading<T: Send + 'static>(
        &self,
        lane: Lane,
        run: impl Fn(&OnThread) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        task::refuse_beside_a_read()?;
        self.files.known()?;
        let short = matches!(lane, Lane::Records(_) | Lane::Identity);
        if short && let Some(result) = self.threads.here.try_read(&run) {
            return result;
        }
        let (sender, answer) = oneshot::channel();
        let (_waiting, limit) = self.limit(lane);
        let read = Box::new(move |on_thread: &OnThread| {
            // A caller that went away while its read was queued needs no answer.
            if !sender.is_closed() {
                let result = limit::limited(limit, || task::contained(|| run(on_thread)));
                let _gone = sender.send(result);
            }
        });
        self.readers(lane).submit(lane.share(), read);
        received(answer).await
    }

    fn readers(&self, lane: Lane) -> &Readers {
        match lane {
            Lane::Records(_) => &self.threads.records,
            Lane::Identity => &self.threads.identity,
            Lane::Lists(_) => &self.threads.lists,
        }
    }

    /// The cost limit of a read, and a guard that ends the read when it is dropped.
    fn limit(&self, lane: Lane) -> (Waiting, Limit) {
        let (waiting, gone) = Waiting::new();
        let limit = match lane {
            Lane::Records(_) | Lane::Identity => Limit { gone, ..Limit::of_time(self.deadlines.statement) },
            Lane::Lists(_) => Limit { time: self.list_timeout, search_bytes: self.search_bytes, gone },
        };
        (waiting, limit)
    }
}

async fn received<T, E: From<Error>>(answer: oneshot::Receiver<Result<T, E>>) -> Result<T, E> {
    answer.await.unwrap_or_else(|_| Err(Error::Closed.into()))
}
