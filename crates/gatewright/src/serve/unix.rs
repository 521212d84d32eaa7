use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use tokio::net::{UnixListener, UnixStream};

/// The owner and the group may connect.
const MODE: u32 = 0o660;

/// A socket in the file system. Its file is removed when it is closed.
pub(super) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and the number of its file.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`. A socket that a killed server left there is replaced. A socket on which somebody listens, and any other
    /// file, is refused.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        refuse_taken(path)?;
        // The file gets its name only with its final mode, and replaces the old one in one step.
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = path.with_file_name(name);
        let _old_attempt = fs::remove_file(&new);
        let listener = UnixListener::bind(&new)?;
        let placed = fs::set_permissions(&new, fs::Permissions::from_mode(MODE)).and_then(|()| fs::rename(&new, path));
        if let Err(error) = placed {
            let _useless = fs::remove_file(&new);
            return Err(error);
        }
        Ok(Self { listener, path: path.to_owned(), file: place(path)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(context).map_ok(|(stream, _)| stream)
    }

    /// Removes the file, unless another server has replaced it, and returns the connections that are set up already.
    pub(super) fn close(self) -> Vec<UnixStream> {
        if place(&self.path).is_ok_and(|file| file == self.file) {
            let _gone = fs::remove_file(&self.path);
        }
        let mut rest = Vec::new();
        if let Ok(listener) = self.listener.into_std() {
            while let Ok((stream, _)) = listener.accept() {
                rest.extend(stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).ok());
            }
        }
        rest
    }
}

fn place(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

fn refuse_taken(path: &Path) -> io::Result<()> {
    let refused = |reason| Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => refused("there is a file that is no socket"),
        Ok(_) => match StdStream::connect(path) {
            Ok(_) => refused("another process listens on the socket"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE);
        assert_eq!(UnixSocket::bind(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse, "somebody listens");
        // As after a kill: the file stays.
        drop(first);
        assert!(path.exists());
        let second = UnixSocket::bind(&path).unwrap();
        assert!(StdStream::connect(&path).is_ok());
        assert_eq!(second.close().len(), 1, "a connection that was set up is served");
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert_eq!(UnixSocket::bind(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(UnixSocket::bind(&link).is_err(), "a link is no socket");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left over");
    }

    #[tokio::test]
    async fn a_server_that_stops_leaves_the_socket_of_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixSocket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let next = UnixSocket::bind(&path).unwrap();
        first.close();
        assert!(path.exists());
        drop(next);
    }
}
