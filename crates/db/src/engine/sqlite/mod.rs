//! SQLite: one writer thread with group commit ([`writer`]), reader threads ([`reader`]), each with a connection that
//! never leaves its thread ([`connection`]). [`task`] polls an async closure on such a thread.

mod connection;
pub(crate) mod decimal;
mod error;
mod reader;
mod task;
mod writer;

use tokio::sync::oneshot;

pub(crate) use connection::{OnThread, value};

use crate::row::RowRef;
use crate::{Error, OpenError, Options, Row, Sql, Tx, Value};
use connection::Location;
use reader::Readers;
use task::{Deadlines, TxJob};
use writer::{StatementJob, Writer};

pub(crate) struct Sqlite {
    writer: Writer,
    readers: Readers,
    deadlines: Deadlines,
}

impl Sqlite {
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self, OpenError> {
        let location = Location::parse(url)?;
        let deadlines = Deadlines { waiting: options.write_deadline, statement: options.statement_timeout };
        let readers = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
        let options = options.clone();
        let handle = tokio::runtime::Handle::current();
        // Opening waits for locks and disks, so it happens away from the runtime's own threads.
        tokio::task::spawn_blocking(move || {
            let writer = Writer::start(location.open_writer(&options)?, handle.clone());
            let connections =
                (0..readers).map(|_| location.open_reader(&options)).collect::<Result<Vec<_>, OpenError>>()?;
            Ok(Self { writer, readers: Readers::start(connections, &handle), deadlines })
        })
        .await
        .unwrap_or_else(|panic| {
            Err(OpenError::Unreachable { location: "sqlite".to_owned(), reason: panic.to_string() })
        })
    }

    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        task::refuse_nested()?;
        let (job, answer) = TxJob::new(work, self.deadlines);
        self.writer.submit(Box::new(job)).await?;
        received(answer).await
    }

    pub(crate) async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        task::refuse_nested()?;
        let (mut job, answer) = TxJob::new(work, self.deadlines);
        self.readers.submit(Box::new(move |_| {
            task::run_once(&mut job);
            writer::Job::finish(Box::new(job), Ok(()));
        }));
        received(answer).await
    }

    pub(crate) async fn execute(&self, sql: Sql, params: Vec<Value>) -> Result<u64, Error> {
        self.statement(move |on_thread| on_thread.execute(&sql, &params), |_| (), false).await
    }

    pub(crate) async fn write_rows(&self, sql: Sql, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.statement(move |on_thread| on_thread.query(&sql, &params), |_| (), true).await
    }

    pub(crate) async fn write_fold<A, F, C>(
        &self,
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
        self.statement(move |on_thread| on_thread.fold(&sql, &params, start.clone(), &each), after_commit, true).await
    }

    pub(crate) async fn query(&self, sql: Sql, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.reading(move |on_thread| on_thread.query(&sql, &params)).await
    }

    pub(crate) async fn fold<A, F>(&self, sql: Sql, params: Vec<Value>, start: A, each: F) -> Result<A, Error>
    where
        A: Send + 'static,
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error> + Send + 'static,
    {
        self.reading(move |on_thread| on_thread.fold(&sql, &params, start, each)).await
    }

    async fn statement<T: Send + 'static>(
        &self,
        run: impl Fn(&OnThread) -> Result<T, Error> + Send + 'static,
        after_commit: impl FnOnce(&T) + Send + 'static,
        returning: bool,
    ) -> Result<T, Error> {
        task::refuse_nested()?;
        let (job, answer) = StatementJob::new(run, after_commit, self.deadlines.statement, returning);
        self.writer.submit(Box::new(job)).await?;
        received(answer).await
    }

    async fn reading<T: Send + 'static>(
        &self,
        run: impl FnOnce(&OnThread) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        task::refuse_beside_a_read()?;
        let (sender, answer) = oneshot::channel();
        let limit = self.deadlines.statement;
        self.readers.submit(Box::new(move |on_thread| {
            // A caller that went away while its read was queued needs no answer.
            if !sender.is_closed() {
                let result = on_thread.limited(limit, || task::contained(|| run(on_thread)));
                let _gone = sender.send(result);
            }
        }));
        received(answer).await
    }
}

async fn received<T, E: From<Error>>(answer: oneshot::Receiver<Result<T, E>>) -> Result<T, E> {
    answer.await.unwrap_or_else(|_| Err(Error::Closed.into()))
}
