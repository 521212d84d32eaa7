//! An archive as a stream of bytes, whose number is known before the first.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, mem};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use super::{ArchiveError, BLOCK, Content, DATABASE, FILES, FORMAT, Hold, MANIFEST, Manifest, StoredFile, VERSION};
use crate::options::Backend;
use crate::store::Store;
use crate::upload::digits;

/// How many bytes are read at once.
const CHUNK: usize = 64 * 1024;

/// A backup that is about to be written.
pub struct Archive {
    parts: Vec<Part>,
    size: u64,
    missing: Vec<String>,
    store: Arc<Store>,
    hold: Hold,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("size", &self.size).field("missing", &self.missing).finish_non_exhaustive()
    }
}

enum Part {
    Bytes(Bytes),
    Database(PathBuf, Content),
    File(StoredFile),
    /// The end: files may be deleted again.
    Release,
}

impl Archive {
    /// Of the copy of a database, and of the files that it names. `hold` began before the copy was made.
    pub async fn of(
        database: PathBuf,
        files: Vec<StoredFile>,
        backend: &Backend,
        hold: Hold,
    ) -> Result<Self, ArchiveError> {
        let store = Store::open(backend)?;
        let mut there = std::collections::HashSet::new();
        let mut all = store.list();
        while let Some(found) = all.next().await {
            there.insert(found?.0);
        }
        drop(all);
        let (files, missing): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| there.contains(&file.id));
        let missing: Vec<String> = missing.into_iter().map(|file| file.id).collect();
        let content = content(&database).await?;
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            database: content.clone(),
            files,
            missing: missing.clone(),
        };
        let refused = |error: &dyn ToString| ArchiveError::File { file: database.clone(), reason: error.to_string() };
        let text = serde_json::to_vec(&manifest).map_err(|error| refused(&error))?;
        let mut parts = vec![
            Part::Bytes(header(MANIFEST, text.len() as u64).map_err(|error| refused(&error))?),
            Part::Bytes(padding(text.len() as u64)),
            Part::Bytes(header(DATABASE, content.bytes).map_err(|error| refused(&error))?),
            Part::Bytes(padding(content.bytes)),
        ];
        let mut size = padded(text.len() as u64) + padded(content.bytes) + 2 * BLOCK as u64;
        parts.insert(1, Part::Bytes(text.into()));
        parts.insert(4, Part::Database(database.clone(), content));
        for file in manifest.files {
            size += padded(file.bytes);
            let name = format!("{FILES}{}", file.id);
            let (header, padding) = (header(&name, file.bytes).map_err(|error| refused(&error))?, padding(file.bytes));
            parts.extend([Part::Bytes(header), Part::File(file), Part::Bytes(padding)]);
        }
        // Two empty blocks end a tar.
        parts.push(Part::Bytes(Bytes::from_static(&[0; 2 * BLOCK])));
        parts.push(Part::Release);
        Ok(Self { parts, size, missing, store: Arc::new(store), hold })
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The ids of files whose bytes the store has lost: they are not in it.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Its bytes. They end with an error if the store fails, or a file is not what its row says.
    pub fn into_stream(mut self) -> BoxStream<'static, io::Result<Bytes>> {
        let parts = stream::iter(mem::take(&mut self.parts));
        let (store, hold) = (self.store, self.hold);
        // Of a stream that is dropped before its end, it ends with the stream.
        let parts = parts.scan(Some(hold), move |hold, part| {
            let store = store.clone();
            let next = match part {
                Part::Bytes(bytes) => stream::once(async { Ok(bytes) }).boxed(),
                Part::Database(path, content) => checked(file(path), content).boxed(),
                Part::File(stored) => {
                    let content = Content { bytes: stored.bytes, sha256: stored.sha256 };
                    let bytes = async move { store.read(&stored.id, None).await.map_err(io::Error::other) };
                    checked(stream::once(bytes).try_flatten().boxed(), content).boxed()
                }
                Part::Release => {
                    let hold = hold.take();
                    let end = async move {
                        match hold {
                            Some(hold) => hold.end().await,
                            None => Ok(()),
                        }
                    };
                    silent(end).boxed()
                }
            };
            std::future::ready(Some(next))
        });
        parts.flatten().boxed()
    }
}

/// No bytes, but an error if the work fails.
fn silent<E: std::error::Error + Send + Sync + 'static>(
    work: impl Future<Output = Result<(), E>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::once(work).filter_map(async |done| done.err().map(|error| Err(io::Error::other(error))))
}

/// The block before a file.
fn header(name: &str, size: u64) -> io::Result<Bytes> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(0o600);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(Bytes::copy_from_slice(header.as_bytes()))
}

/// What fills the last block of a file.
fn padding(size: u64) -> Bytes {
    Bytes::from_static(&[0; BLOCK]).slice(..usize::try_from(rest(size)).unwrap_or(0))
}

/// How many bytes the last block of a file lacks.
pub(super) fn rest(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

/// The bytes of a file with its header, in whole blocks.
fn padded(size: u64) -> u64 {
    BLOCK as u64 + size + rest(size)
}

/// The bytes of a file of the disk.
fn file(path: PathBuf) -> BoxStream<'static, io::Result<Bytes>> {
    let opened = async { tokio::fs::File::open(path).await };
    let bytes = async |opened: io::Result<tokio::fs::File>| {
        let file = opened?;
        Ok::<_, io::Error>(stream::try_unfold(file, async |mut file: tokio::fs::File| {
            let mut chunk = vec![0; CHUNK];
            let count = file.read(&mut chunk).await?;
            chunk.truncate(count);
            Ok::<_, io::Error>((count > 0).then(|| (Bytes::from(chunk), file)))
        }))
    };
    stream::once(opened).then(bytes).try_flatten().boxed()
}

async fn content(path: &Path) -> Result<Content, ArchiveError> {
    let (mut hash, mut size, mut bytes) = (Sha256::new(), 0, file(path.to_owned()));
    while let Some(piece) = bytes.next().await {
        let piece = piece.map_err(|error| ArchiveError::File { file: path.to_owned(), reason: error.to_string() })?;
        hash.update(&piece);
        size += piece.len() as u64;
    }
    Ok(Content { bytes: size, sha256: digits(&hash.finalize()) })
}

/// The same bytes, and an error if they are others than expected.
pub(super) fn checked(
    bytes: BoxStream<'static, io::Result<Bytes>>,
    expected: Content,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let state = (bytes, Sha256::new(), 0_u64, expected);
    stream::try_unfold(Some(state), async |state| {
        let Some((mut bytes, mut hash, mut size, expected)) = state else { return Ok(None) };
        match bytes.next().await.transpose()? {
            Some(piece) => {
                hash.update(&piece);
                size += piece.len() as u64;
                Ok(Some((piece, Some((bytes, hash, size, expected)))))
            }
            None if size == expected.bytes && digits(&hash.finalize()) == expected.sha256 => Ok(None),
            None => Err(io::Error::other("a file is not what the database says of it; run `gatewright verify`")),
        }
    })
}
