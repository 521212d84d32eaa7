//! How a running server is found: by a file that it holds locked, with the number of its process.
//!
//! A number alone proves nothing: after a crash, the system gives it to another process. The lock ends with the process that has
//! it, and on Linux the process must also have that file open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gatewright::Config;

/// The most bytes of a file with the number of a process.
const LONGEST: u64 = 16;

/// The file of `server.pid_file`, locked until it is dropped.
pub(crate) struct PidFile {
    path: PathBuf,
    locked: File,
}

impl PidFile {
    /// Creates and locks the file, if the configuration names one.
    pub(crate) fn take(config: &Config) -> anyhow::Result<Option<Self>> {
        let Some(path) = &config.server.pid_file else { return Ok(None) };
        let cannot = || format!("cannot lock the file of `server.pid_file`, {}", path.display());
        loop {
            let mut file = open(path).with_context(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let process =
                        number_in(&mut file).map_or_else(String::new, |number| format!(" (process {number})"));
                    bail!("another server{process} has locked the file of `server.pid_file`, {}", path.display());
                }
                Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
            }
            // The server that stops removes the file. One that was removed after it was opened is no longer found.
            if !is_at(&file, path) {
                continue;
            }
            if !is_of_a_server(&mut file).with_context(cannot)? {
                bail!(
                    "`server.pid_file` names {}, which has something else than the number of a process",
                    path.display()
                );
            }
            file.set_len(0).and_then(|()| file.rewind()).with_context(cannot)?;
            writeln!(file, "{}", std::process::id()).with_context(cannot)?;
            return Ok(Some(Self { path: path.clone(), locked: file }));
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another file may be there by now.
        if !is_at(&self.locked, &self.path) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the file of `server.pid_file` stays");
        }
    }
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) process: u32,
    /// Where it writes the outcome of reading its configuration again.
    pub(crate) outcome: PathBuf,
}

/// Where the server of a configuration writes the outcome of reading its configuration again: beside the file by which it is
/// found.
pub(crate) fn outcome(config: &Config) -> Option<PathBuf> {
    let mut name = locked_file(config)?.into_os_string();
    name.push(".reload");
    Some(PathBuf::from(name))
}

fn locked_file(config: &Config) -> Option<PathBuf> {
    config.server.pid_file.clone().or_else(|| config.database.lock_file())
}

impl Running {
    /// Finds the server of a configuration.
    pub(crate) fn find(config: &Config) -> anyhow::Result<Self> {
        let (Some(path), Some(outcome)) = (locked_file(config), outcome(config)) else {
            bail!("on Postgres, set `server.pid_file`, by which the server is found");
        };
        let shown = path.display();
        let mut file = match OpenOptions::new().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("no server runs: there is no file {shown}")
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        };
        match file.try_lock_shared() {
            Ok(()) => bail!("no server runs: nothing has locked {shown}"),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("cannot lock {shown}")),
        }
        let Some(process) = number_in(&mut file) else { bail!("{shown} has no number of a process") };
        if !has_open(process, &file)? {
            bail!("{shown} names the process {process}, which does not have it open: no signal is sent");
        }
        Ok(Self { process, outcome })
    }

    /// Asks the server to read its configuration again.
    #[cfg(unix)]
    pub(crate) fn hang_up(&self) -> anyhow::Result<()> {
        use rustix::process::{Pid, Signal, kill_process};
        let process =
            i32::try_from(self.process).ok().and_then(Pid::from_raw).context("not the number of a process")?;
        kill_process(process, Signal::HUP).with_context(|| format!("cannot signal the process {}", self.process))
    }

    #[cfg(not(unix))]
    pub(crate) fn hang_up(&self) -> anyhow::Result<()> {
        bail!("this system has no signals: restart the server (process {})", self.process)
    }
}

/// Opens or creates the file, and follows no link at its place: another program may have made it.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o644).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.open(path)
}

/// Whether a file is empty or has one number, as a server leaves it. Nothing else is overwritten.
fn is_of_a_server(file: &mut File) -> std::io::Result<bool> {
    let about = file.metadata()?;
    Ok(about.is_file() && (about.len() == 0 || (about.len() <= LONGEST && number_in(file).is_some())))
}

fn number_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(place).ok() == std::fs::symlink_metadata(path).map(place).ok()
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Whether a process has a file open. Only Linux says so; elsewhere the lock has to do.
#[cfg(target_os = "linux")]
fn has_open(process: u32, file: &File) -> anyhow::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let folder = format!("/proc/{process}/fd");
    let cannot = || format!("cannot see the files of the process {process}: run this as the user of the server");
    let wanted = file.metadata()?;
    let is_it = |entry: std::io::Result<std::fs::DirEntry>| {
        let found = entry.ok().and_then(|entry| std::fs::metadata(entry.path()).ok());
        found.is_some_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.any(is_it)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(cannot),
    }
}

#[cfg(not(target_os = "linux"))]
fn has_open(_: u32, _: &File) -> anyhow::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_a_server_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        assert!(is_of_a_server(&mut open(&path).unwrap()).unwrap(), "a new one");
        for (text, is_one) in [("17\n", true), ("17", true), ("17\n18\n", false), ("a = 1\n", false), ("\n", false)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_of_a_server(&mut open(&path).unwrap()).unwrap(), is_one, "{text:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        std::fs::write(&path, format!("17{}x", " ".repeat(20))).unwrap();
        assert!(!is_of_a_server(&mut open(&path).unwrap()).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("pid"), folder.path().join("other"));
        std::fs::write(&other, "17").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(open(&path).is_err());
        assert!(!is_at(&open(&other).unwrap(), &path));
    }
}
