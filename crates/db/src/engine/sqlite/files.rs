//! Notices that the files of an open database were removed or replaced.
//!
//! A process keeps writing to the files that it has opened. If the database, its write-ahead log or its index of the log is
//! removed, moved or replaced, these writes are lost when the process ends, and other processes use other files, with locks
//! that exclude nobody. So nothing is acknowledged unless the paths still lead to the opened files. Three calls of `stat` take
//! a few microseconds, a commit takes a flush of the disk. Opening a file again instead would drop SQLite's locks on it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// The files of an open database, as they were when it was opened.
pub(super) struct Files {
    /// The database, its write-ahead log and the index of that log.
    opened: [Opened; 3],
    /// The first file that was found missing or replaced.
    lost: OnceLock<PathBuf>,
    /// The database closes: the last connection removes the log.
    is_closing: AtomicBool,
}

struct Opened {
    path: PathBuf,
    /// `None` if it could not be read; then the file is not watched.
    identity: Option<Identity>,
}

/// Device and inode. On systems without them only the existence of a file is checked.
type Identity = (u64, u64);

impl Files {
    /// The files of the database at `path`, which is open and in WAL mode.
    pub(super) fn of(path: &Path) -> Self {
        // The log is beside the real file, also if `path` is a link. The link itself may be changed too.
        let named = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let real = path.canonicalize().unwrap_or_else(|_| named.clone());
        let beside = |suffix| {
            let mut name = OsString::from(&real);
            name.push(suffix);
            PathBuf::from(name)
        };
        let opened = [named, beside("-wal"), beside("-shm")].map(|path| {
            let identity = identity(&path).ok();
            Opened { path, identity }
        });
        Self { opened, lost: OnceLock::new(), is_closing: AtomicBool::new(false) }
    }

    /// Fails if a file is known to be lost.
    pub(super) fn known(&self) -> Result<(), Error> {
        self.lost.get().map_or(Ok(()), |path| Err(Error::FileLost(path.clone())))
    }

    /// The database.
    pub(super) fn path(&self) -> &Path {
        &self.opened[0].path
    }

    /// The length of the write-ahead log.
    pub(super) fn log_bytes(&self) -> u64 {
        std::fs::metadata(&self.opened[1].path).map_or(0, |log| log.len())
    }

    /// Ends [`check_open`](Self::check_open).
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    /// [`check`](Self::check), if the database does not close.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.is_closing.load(Ordering::Acquire) { Ok(()) } else { self.check() }
    }

    /// Fails if a file is missing or replaced. Logs the first time. For threads with an open connection.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.known()?;
        let Some(lost) = self.opened.iter().find(|opened| !opened.is_there()) else { return Ok(()) };
        if self.lost.set(lost.path.clone()).is_ok() {
            tracing::error!(
                file = %lost.path.display(),
                "a file of the database was removed or replaced while this server uses it. Nothing is stored until the \
                 server is restarted. Stop the server, check which of the files is the right one (`gatewright verify`; \
                 restore a backup with `gatewright restore`), and start it again"
            );
        }
        self.known()
    }

    /// Whether what this process has in its write-ahead log may still be moved into the database file that it has open. Not if
    /// another process has written to another log.
    pub(super) fn may_move_log(&self) -> bool {
        let [_, log, _] = &self.opened;
        log.is_there() || std::fs::metadata(&log.path).map_or(true, |other| other.len() == 0)
    }
}

impl Opened {
    /// A failure other than a missing file says nothing about the file.
    fn is_there(&self) -> bool {
        let Some(opened) = self.identity else { return true };
        match identity(&self.path) {
            Ok(found) => found == opened,
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> std::io::Result<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> std::io::Result<Identity> {
    std::fs::metadata(path).map(|_| (0, 0))
}
