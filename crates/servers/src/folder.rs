use std::{
    env, fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::Error;

/// A temporary folder that only its owner may list, removed with all that is in it on drop.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a fresh folder under `TMPDIR`, its name starting with `gatewright-` and `label`.
    pub fn create(label: &str) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parent = env::temp_dir();
        let mut attempts = 0;
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("gatewright-{label}-{}-{count}", process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // A process of the same id was killed here before.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempts < 1000 => attempts += 1,
                Err(error) => return Err(Error::new(format!("cannot create {}: {error}", path.display()))),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn write_secret(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let file = self.0.join(name);
        fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&file)
            .and_then(|mut open| open.write_all(text.as_bytes()))
            .map_err(Error::during(format_args!("cannot write {}", file.display())))?;
        Ok(file)
    }

    /// Lets other users access their own files inside it, without listing it.
    pub(crate) fn let_through(&self) -> Result<(), Error> {
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o711))
            .map_err(Error::during(format_args!("cannot open {}", self.0.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_gone_after_drop() {
        let folder = Folder::create("unit").unwrap();
        let path = folder.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }
}
