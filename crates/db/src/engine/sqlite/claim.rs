//! One server per database file.
//!
//! The claim is a lock on the file `DATABASE-lock`, which the system releases when the process ends in any way. The
//! lock cannot be on the database file: SQLite has its own locks there, and closing any descriptor of the file would
//! drop them. The lock file stays; only the lock on it counts.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The claim, held until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    _locked: File,
}

impl Claim {
    /// Claims the database file at `database`, which exists.
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let path = lock_file(database);
        let unreachable = |error: io::Error| OpenError::Unreachable {
            location: database.display().to_string(),
            reason: format!("cannot lock {}: {error}", path.display()),
        };
        let mut file = open(&path).map_err(unreachable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let location = database.display().to_string();
                return Err(OpenError::InUse { location, process: process_in(&mut file) });
            }
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!(
                    path = %path.display(),
                    "the file system has no locks: nothing stops a second server on the same SQLite file"
                );
            }
            Err(TryLockError::Error(error)) => return Err(unreachable(error)),
        }
        // The number only serves the message of a server that is refused.
        if let Err(error) = note_process(&mut file) {
            tracing::debug!(%error, "cannot write the process id into the lock file");
        }
        Ok(Self { _locked: file })
    }
}

/// The file that the server on a SQLite database holds locked, and that contains the number of its process. It is beside the real
/// file: two servers that use different links to it must find the same lock.
pub fn lock_file(database: &Path) -> PathBuf {
    let real = database.canonicalize().unwrap_or_else(|_| database.to_owned());
    let mut name = OsString::from(real);
    name.push("-lock");
    PathBuf::from(name)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn note_process(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

fn process_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
