//! Exports: one statement each, on a thread and a connection of its own.
//!
//! While a statement reads, its snapshot keeps the write-ahead log from being moved into the database. So the statement does not
//! wait for a slow reader: what the reader has not taken waits in memory, and behind that in a file without a name, up to a
//! limit. Only then does it wait, and ends if the log grows too much meanwhile.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::connection::{OnThread, Opener};
use super::files::Files;
use super::limit::{self, Gone, Limit, Waiting};
use super::task;
use crate::export::PIECE;
use crate::row::RowRef;
use crate::{Error, Sql, Value};

/// How many bytes wait in memory.
const IN_MEMORY: usize = 16 * PIECE;
/// How often a statement that waits looks at the log.
const LOOK: Duration = Duration::from_millis(200);

/// The exports that run.
pub(super) struct Exports {
    running: Mutex<Running>,
    ended: Condvar,
    open: Opener,
    files: Arc<Files>,
    /// The most bytes in a file, and the most by which the log may grow.
    most: u64,
}

#[derive(Default)]
struct Running {
    is_closed: bool,
    next: u64,
    exports: HashMap<u64, Arc<Spool>>,
}

type Piece = Result<Option<Vec<u8>>, Error>;

/// What an export has produced. Dropping it stops the statement.
pub(crate) struct Pieces {
    spool: Arc<Spool>,
    /// A piece that is being taken. It is not lost if its future is dropped.
    taking: Option<JoinHandle<Option<Piece>>>,
    _waiting: Waiting,
}

struct Spool {
    state: Mutex<State>,
    /// There is something to read.
    arrived: Notify,
    /// There is room.
    taken: Condvar,
    gone: Gone,
    path: PathBuf,
}

#[derive(Default)]
struct State {
    memory: VecDeque<Vec<u8>>,
    in_memory: usize,
    file: Option<File>,
    /// The lengths of the pieces in the file that are not read.
    pieces: VecDeque<usize>,
    read: u64,
    written: u64,
    ended: Option<Result<(), Error>>,
}

impl Exports {
    pub(super) fn new(open: Opener, files: Arc<Files>, most: u64) -> Self {
        Self { running: Mutex::default(), ended: Condvar::new(), open, files, most }
    }

    /// Starts one.
    pub(super) fn start<F>(self: &Arc<Self>, (sql, params): (Sql, Vec<Value>), time: Duration, write: F) -> Pieces
    where
        F: FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error> + Send + 'static,
    {
        let (waiting, gone) = Waiting::new();
        let spool = Arc::new(Spool {
            state: Mutex::default(),
            arrived: Notify::new(),
            taken: Condvar::new(),
            gone,
            path: self.files.path().to_owned(),
        });
        let pieces = Pieces { spool: spool.clone(), taking: None, _waiting: waiting };
        let mut running = self.running.lock();
        if running.is_closed {
            spool.end(Err(Error::Closed));
            return pieces;
        }
        running.next += 1;
        let number = running.next;
        running.exports.insert(number, spool.clone());
        drop(running);
        let exports = self.clone();
        let thread = std::thread::Builder::new().name(format!("sqlite-export-{number}")).spawn(move || {
            let ended = task::contained(|| exports.run(&spool, (&sql, &params), time, write));
            spool.end(ended);
            exports.forget(number);
        });
        if let Err(error) = thread {
            pieces.spool.end(Err(Error::other("export", error)));
            self.forget(number);
        }
        pieces
    }

    fn run(
        &self,
        spool: &Spool,
        (sql, params): (&Sql, &[Value]),
        time: Duration,
        mut write: impl FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.files.known()?;
        let until = Instant::now() + time;
        let connection = (self.open)().map_err(|error| Error::other("export", error))?;
        let on_thread = OnThread::settle(connection);
        task::mark(on_thread, task::Role::Reader);
        let bounds = Bounds { until, most: self.most, log: self.files.log_bytes().saturating_add(self.most) };
        let limit = Limit { time, search_bytes: u64::MAX, gone: spool.gone.clone() };
        let read = || {
            let rest = on_thread.fold(sql, params, Vec::new(), |piece, row| {
                write(row, piece)?;
                if piece.len() < PIECE {
                    return Ok(());
                }
                spool.push(std::mem::take(piece), &bounds, &self.files)
            })?;
            if rest.is_empty() { Ok(()) } else { spool.push(rest, &bounds, &self.files) }
        };
        let ended = limit::limited(limit, || task::contained(read));
        on_thread.close();
        ended
    }

    fn forget(&self, number: u64) {
        self.running.lock().exports.remove(&number);
        self.ended.notify_all();
    }

    /// Ends all, and waits up to `limit` for their connections to close.
    pub(super) fn close(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut running = self.running.lock();
        running.is_closed = true;
        for spool in running.exports.values() {
            spool.gone.set();
            spool.end(Err(Error::Closed));
        }
        while !running.exports.is_empty() {
            if self.ended.wait_until(&mut running, until).timed_out() {
                return;
            }
        }
    }
}

/// The limits of one export.
struct Bounds {
    until: Instant,
    /// The most bytes in its file.
    most: u64,
    /// The most bytes of the log.
    log: u64,
}

impl Spool {
    /// Hands a piece on, and waits for room if there is none.
    fn push(&self, piece: Vec<u8>, bounds: &Bounds, files: &Files) -> Result<(), Error> {
        let mut state = self.state.lock();
        loop {
            if self.gone.is_set() {
                return Err(Error::Closed);
            }
            if files.log_bytes() > bounds.log {
                return Err(Error::ExportTooSlow);
            }
            if state.read == state.written && state.in_memory < IN_MEMORY {
                state.in_memory += piece.len();
                state.memory.push_back(piece);
                break;
            }
            if state.written - state.read < bounds.most {
                state.write(&piece, &self.path).map_err(full)?;
                break;
            }
            if Instant::now() >= bounds.until {
                return Err(Error::Deadline);
            }
            self.taken.wait_for(&mut state, LOOK);
        }
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The first end counts.
    fn end(&self, ended: Result<(), Error>) {
        self.state.lock().ended.get_or_insert(ended);
        self.arrived.notify_one();
        self.taken.notify_all();
    }

    /// The next piece, if it is there. Reads a file.
    fn take(&self) -> Option<Piece> {
        let mut state = self.state.lock();
        if let Some(Err(error)) = &state.ended {
            return Some(Err(error.clone()));
        }
        let piece = match state.memory.pop_front() {
            Some(piece) => {
                state.in_memory -= piece.len();
                piece
            }
            None if state.read < state.written => match state.read() {
                Ok(piece) => piece,
                Err(error) => return Some(Err(full(error))),
            },
            None => return state.ended.is_some().then_some(Ok(None)),
        };
        drop(state);
        self.taken.notify_all();
        Some(Ok(Some(piece)))
    }
}

impl State {
    fn write(&mut self, piece: &[u8], path: &Path) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => unnamed(path)?,
        };
        file.seek(SeekFrom::Start(self.written))?;
        file.write_all(piece)?;
        self.written += piece.len() as u64;
        self.pieces.push_back(piece.len());
        self.file = Some(file);
        Ok(())
    }

    /// The next piece of the file. Once all are read, it is empty again.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let (Some(file), Some(length)) = (&mut self.file, self.pieces.pop_front()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut piece = vec![0; length];
        file.read_exact(&mut piece)?;
        self.read += length as u64;
        if self.read == self.written {
            file.set_len(0)?;
            (self.read, self.written) = (0, 0);
        }
        Ok(piece)
    }
}

impl Pieces {
    pub(crate) async fn next(&mut self) -> Piece {
        loop {
            let spool = &self.spool;
            // The lock may be held while a file is written.
            let taking = self.taking.get_or_insert_with(|| {
                let spool = spool.clone();
                tokio::task::spawn_blocking(move || spool.take())
            });
            let taken = taking.await;
            self.taking = None;
            if let Some(piece) = taken.map_err(|error| Error::other("export", error))? {
                return piece;
            }
            self.spool.arrived.notified().await;
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.spool.gone.set();
        self.spool.taken.notify_all();
    }
}

/// A new file beside the database, without a name where the system allows it.
fn unnamed(database: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut name = database.as_os_str().to_owned();
    name.push(format!(".export-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let path = PathBuf::from(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn full(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull { Error::DiskFull } else { Error::other("export", error) }
}
