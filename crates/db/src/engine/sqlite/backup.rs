//! Copies of a whole database file: from a running database, with checks, and restoring them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::claim::Claim;
use super::connection::Location;
use crate::{BackupError, OpenError};

/// The files that SQLite keeps beside a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// How many replaced databases are kept beside one.
const MAX_KEPT: u32 = 1_000;

/// Copies the database to `file`, which must not exist, in one consistent state. Returns its size. Writers continue
/// during the copy.
pub(crate) fn copy(url: &str, file: &Path) -> Result<u64, BackupError> {
    let location = Location::parse(url)?;
    if !location.path().exists() {
        return Err(OpenError::Missing { location: location.path().display().to_string() }.into());
    }
    if file.exists() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    let unfinished = Unfinished::create(file)?;
    let connection = location.open_copier(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let name = unfinished.path().to_str().ok_or_else(|| write_error(file, &"its name is not UTF-8"))?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(|error| write_error(file, &error))?;
    drop(connection);
    check(unfinished.path())?;
    let size = unfinished.finish(file)?;
    Ok(size)
}

/// Copies the database like [`copy`], to a file beside it that is removed when it is closed.
pub(crate) fn copy_unnamed(url: &str) -> Result<(File, u64), BackupError> {
    let file = with(Location::parse(url)?.path(), ".download");
    // A file that a killed process left behind.
    let _none = fs::remove_file(&file);
    let size = copy(url, &file)?;
    let opened = File::open(&file).map_err(|error| write_error(&file, &error));
    // Where an open file cannot be removed, the next copy removes it.
    let _later = fs::remove_file(&file);
    Ok((opened?, size))
}

/// A copy of a backup beside the database that it will replace.
pub(crate) struct Staged {
    copy: Unfinished,
    target: PathBuf,
    /// No server can start on the target in that time.
    _claim: Claim,
}

impl Staged {
    /// Checks the backup and copies it. An existing database is refused unless it may be replaced, and so is one on
    /// which a server runs.
    pub(crate) fn new(file: &Path, url: &str, replace: bool) -> Result<Self, BackupError> {
        let target = Location::parse(url)?.path().to_owned();
        check(file)?;
        if target.exists() && !replace {
            return Err(BackupError::Exists(target));
        }
        let claim = Claim::take(&target)?;
        let copy = Unfinished::create(&target)?;
        fs::copy(file, copy.path()).map_err(|error| write_error(&target, &error))?;
        Ok(Self { copy, target, _claim: claim })
    }

    /// The copy's own URL, for work on it before it replaces the database. The caller must close what it opens.
    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}", self.copy.path().display())
    }

    /// Replaces the database with the copy. The old database is kept beside it: returns its path.
    pub(crate) fn commit(self) -> Result<Option<PathBuf>, BackupError> {
        let Self { copy, target, _claim } = self;
        for suffix in BESIDE {
            // Its own log was moved into the file when it was closed.
            let _none = fs::remove_file(with(copy.path(), suffix));
        }
        let kept = set_aside(&target).map_err(|error| write_error(&target, &error))?;
        copy.finish(&target)?;
        Ok(kept)
    }
}

/// Moves a database and its side files: SQLite would read the log of another file as the new database's own.
fn set_aside(target: &Path) -> io::Result<Option<PathBuf>> {
    let taken = |path: &Path| path.exists() || BESIDE.iter().any(|suffix| with(path, suffix).exists());
    if !taken(target) {
        return Ok(None);
    }
    let mut names = (1..=MAX_KEPT).map(|number| with(target, &format!(".before-restore-{number}")));
    let Some(kept) = names.find(|path| !taken(path)) else {
        return Err(io::Error::other(format!("{MAX_KEPT} former databases are kept there already; remove some")));
    };
    for suffix in BESIDE {
        let (from, to) = (with(target, suffix), with(&kept, suffix));
        if from.exists() {
            fs::rename(from, to)?;
        }
    }
    if target.exists() {
        fs::rename(target, &kept)?;
    }
    Ok(Some(kept))
}

/// Refuses a file that is damaged or no database of this program.
fn check(file: &Path) -> Result<(), BackupError> {
    let damaged = |reason: String| BackupError::Damaged { file: file.to_owned(), reason };
    if !file.exists() {
        return Err(damaged("there is no such file".to_owned()));
    }
    let connection = Location::at(file).open_copier(OpenFlags::SQLITE_OPEN_READ_ONLY);
    let connection = connection.map_err(|error| damaged(error.to_string()))?;
    let findings = findings(&connection).map_err(|error| damaged(error.to_string()))?;
    if findings != "ok" {
        return Err(damaged(findings));
    }
    let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'gatewright_migrations'";
    let tables: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(|error| damaged(error.to_string()))?;
    if tables == 0 { Err(damaged("it has no table gatewright_migrations".to_owned())) } else { Ok(()) }
}

fn findings(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
}

/// A file that is removed unless it is finished. Its process holds a lock on it, so that the files of killed processes can be
/// told from others, and are removed by the next copy into their folder.
struct Unfinished {
    path: PathBuf,
    is_finished: bool,
    /// Open until the end: closing it would drop the locks that SQLite has on the file.
    _locked: File,
}

/// The end of a name, before the id of the process.
const UNFINISHED: &str = ".unfinished-";

impl Unfinished {
    /// Creates an empty file beside `file` that only its owner may read: it will contain password hashes.
    fn create(file: &Path) -> Result<Self, BackupError> {
        sweep(file);
        let path = with(file, &format!("{UNFINISHED}{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        loop {
            let created = options.open(&path).map_err(|error| write_error(file, &error))?;
            // Another process may have taken the file for a killed one's before it was locked.
            if !cfg!(unix) || (!matches!(created.try_lock(), Err(TryLockError::WouldBlock)) && path.exists()) {
                return Ok(Self { path, is_finished: false, _locked: created });
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name once it is on the disk. Nothing is replaced. Returns its size.
    fn finish(mut self, file: &Path) -> Result<u64, BackupError> {
        let finish = || {
            // `fs::copy` also copies the permissions.
            #[cfg(unix)]
            fs::set_permissions(&self.path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            let written = File::open(&self.path)?;
            written.sync_all()?;
            match fs::hard_link(&self.path, file) {
                Ok(()) => fs::remove_file(&self.path)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                // A file system without links.
                Err(_) => fs::rename(&self.path, file)?,
            }
            if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                File::open(folder)?.sync_all()?;
            }
            Ok(written.metadata()?.len())
        };
        let size = finish().map_err(|error: io::Error| write_error(file, &error))?;
        self.is_finished = true;
        Ok(size)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// Removes what killed processes have left in the folder of `file`. On systems whose locks also stop readers, nothing.
fn sweep(file: &Path) {
    if !cfg!(unix) {
        return;
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The copy itself reports what is wrong with the folder.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_unfinished = name.rsplit_once(UNFINISHED).is_some_and(|(_, process)| process.parse::<u32>().is_ok());
        let is_left = is_unfinished && File::open(&path).is_ok_and(|left| left.try_lock().is_ok());
        if is_left && fs::remove_file(&path).is_ok() {
            for suffix in BESIDE {
                let _none = fs::remove_file(with(&path, suffix));
            }
            tracing::info!(file = %path.display(), "removed the copy of a backup that was killed");
        }
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn write_error(file: &Path, reason: &impl ToString) -> BackupError {
    BackupError::Write { file: file.to_owned(), reason: reason.to_string() }
}
