//! An archive is read twice: first all of it is checked, then its files are stored.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::write::rest;
use super::{ArchiveError, BLOCK, Content, DATABASE, FILES, FORMAT, MANIFEST, Manifest, StoredFile, VERSION};
use crate::options::Backend;
use crate::store::Store;
use crate::upload::digits;

/// The most bytes of a manifest.
const MANIFEST_BYTES: u64 = 1 << 30;
/// How many bytes are read at once.
const CHUNK: usize = 64 * 1024;

/// Whether a file is an archive, and not a database.
pub fn is_archive(file: &Path) -> bool {
    let mut block = [0; BLOCK];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut block));
    read.is_ok() && block[257..].starts_with(b"ustar")
}

/// An archive whose bytes are those of its manifest.
#[derive(Debug)]
pub struct Archived {
    path: PathBuf,
    files: HashMap<String, StoredFile>,
    missing: Vec<String>,
}

impl Archived {
    /// Checks all of an archive, and writes its database to `database`.
    pub async fn check(archive: &Path, database: &Path) -> Result<Self, ArchiveError> {
        let (archive, database) = (archive.to_owned(), database.to_owned());
        let checked = tokio::task::spawn_blocking(move || {
            let check = Check { path: &archive, entries: Entries::open(&archive)? };
            check.all(&database)
        });
        checked.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// How many files it has.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// The ids of files that were lost when it was made.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Puts its files into a store, each whole or not at all. What is there with the same bytes stays.
    pub async fn store(&self, backend: &Backend) -> Result<(), ArchiveError> {
        let store = Store::open(backend)?;
        let path = self.path.clone();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(4);
        let reading = tokio::task::spawn_blocking(move || -> Result<(), ArchiveError> {
            let mut entries = Entries::open(&path)?;
            while let Some(entry) = entries.next()? {
                let Some(id) = entry.name.strip_prefix(FILES).map(str::to_owned) else {
                    entries.content(&entry, |_| Ok(()))?;
                    continue;
                };
                let sent = |message| {
                    let closed = |_| ArchiveError::File { file: path.clone(), reason: "the store failed".to_owned() };
                    sender.blocking_send(message).map_err(closed)
                };
                sent(Message::File(id))?;
                entries.content(&entry, |bytes| {
                    sent(Message::Bytes(bytes.to_vec())).map_err(|error| io::Error::other(error.to_string()))
                })?;
                sent(Message::End)?;
            }
            Ok(())
        });
        let stored = async {
            let mut writer = None;
            while let Some(message) = receiver.recv().await {
                match (message, &mut writer) {
                    (Message::File(id), _) if !self.has(&store, &id).await? => writer = Some(store.write(&id).await?),
                    (Message::Bytes(bytes), Some(writer)) => writer.write(&bytes).await?,
                    (Message::End, Some(written)) => {
                        written.finish().await?;
                        writer = None;
                    }
                    _ => {}
                }
            }
            Ok::<_, ArchiveError>(())
        };
        let stored = stored.await;
        drop(receiver);
        let read = reading.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        stored.and(read)
    }

    /// Whether the store has this file with the bytes of the archive.
    async fn has(&self, store: &Store, id: &str) -> Result<bool, ArchiveError> {
        let Some(file) = self.files.get(id) else { return Ok(true) };
        has(store, file).await
    }
}

enum Message {
    File(String),
    Bytes(Vec<u8>),
    End,
}

/// Whether a store has a file with these bytes.
async fn has(store: &Store, file: &StoredFile) -> Result<bool, ArchiveError> {
    use futures_util::StreamExt as _;

    if !store.exists(&file.id).await? {
        return Ok(false);
    }
    let (mut bytes, mut hash) = (store.read(&file.id, None).await?, Sha256::new());
    while let Some(piece) = bytes.next().await {
        match piece {
            Ok(piece) => hash.update(&piece),
            Err(_) => return Ok(false),
        }
    }
    Ok(digits(&hash.finalize()) == file.sha256)
}

/// Copies files from one store to another, where they are not there. Returns how many.
pub async fn copy_files(from: &Backend, to: &Backend, files: &[StoredFile]) -> Result<usize, ArchiveError> {
    use futures_util::StreamExt as _;

    let (from, to) = (Store::open(from)?, Store::open(to)?);
    let mut copied = 0;
    for file in files {
        if has(&to, file).await? {
            continue;
        }
        let expected = Content { bytes: file.bytes, sha256: file.sha256.clone() };
        let bytes = super::write::checked(from.read(&file.id, None).await?, expected);
        let mut bytes = std::pin::pin!(bytes);
        let mut writer = to.write(&file.id).await?;
        while let Some(piece) = bytes.next().await {
            let failed =
                |error: io::Error| ArchiveError::File { file: file.id.clone().into(), reason: error.to_string() };
            match piece.map_err(failed) {
                Ok(piece) => writer.write(&piece).await?,
                Err(error) => {
                    writer.abort().await;
                    return Err(error);
                }
            }
        }
        writer.finish().await?;
        copied += 1;
    }
    Ok(copied)
}

/// The check of a whole archive.
struct Check<'a> {
    path: &'a Path,
    entries: Entries,
}

impl Check<'_> {
    fn all(mut self, database: &Path) -> Result<Archived, ArchiveError> {
        let manifest = self.manifest()?;
        let entry = self.entries.next()?.filter(|entry| entry.name == DATABASE);
        let Some(entry) = entry else { return Err(self.damaged("it has no database after its manifest")) };
        let refused = |error: io::Error| ArchiveError::File { file: database.to_owned(), reason: error.to_string() };
        let mut copy = std::fs::File::create(database).map_err(refused)?;
        let found = self.entries.content(&entry, |bytes| io::Write::write_all(&mut copy, bytes))?;
        copy.sync_all().map_err(refused)?;
        if found != manifest.database.sha256 {
            return Err(self.damaged("its database is not the one of its manifest"));
        }
        let named: HashMap<String, StoredFile> =
            manifest.files.into_iter().map(|file| (file.id.clone(), file)).collect();
        let mut seen = 0;
        while let Some(entry) = self.entries.next()? {
            let file = entry.name.strip_prefix(FILES).and_then(|id| named.get(id));
            let Some(file) = file.filter(|file| uuid::Uuid::try_parse(&file.id).is_ok()) else {
                return Err(self.damaged(&format!("its manifest does not name {:?}", entry.name)));
            };
            let (id, bytes, sha256) = (file.id.clone(), file.bytes, file.sha256.clone());
            if entry.size != bytes || self.entries.content(&entry, |_| Ok(()))? != sha256 {
                return Err(self.damaged(&format!("the file {id} is not the one of its manifest")));
            }
            seen += 1;
        }
        if seen != named.len() {
            return Err(self.damaged(&format!("it has {seen} files, and its manifest names {}", named.len())));
        }
        Ok(Archived { path: self.path.to_owned(), files: named, missing: manifest.missing })
    }

    fn manifest(&mut self) -> Result<Manifest, ArchiveError> {
        let entry = self.entries.next()?.filter(|entry| entry.name == MANIFEST && entry.size <= MANIFEST_BYTES);
        let Some(entry) = entry else { return Err(self.damaged("it does not begin with a manifest")) };
        let mut text = Vec::new();
        self.entries.content(&entry, |bytes| {
            text.extend_from_slice(bytes);
            Ok(())
        })?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| self.damaged(&error.to_string()))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            return Err(
                self.damaged("it is of another version; restore it with the version that wrote it, or a newer one")
            );
        }
        Ok(manifest)
    }

    fn damaged(&self, reason: &str) -> ArchiveError {
        ArchiveError::Damaged { file: self.path.to_owned(), reason: reason.to_owned() }
    }
}

/// The entries of a tar, one after the other.
struct Entries {
    path: PathBuf,
    file: io::BufReader<std::fs::File>,
}

struct Entry {
    name: String,
    size: u64,
}

impl Entries {
    fn open(path: &Path) -> Result<Self, ArchiveError> {
        let refused = |error: io::Error| ArchiveError::File { file: path.to_owned(), reason: error.to_string() };
        let file = std::fs::File::open(path).map_err(refused)?;
        Ok(Self { path: path.to_owned(), file: io::BufReader::with_capacity(CHUNK, file) })
    }

    /// The next entry, whose content must be read before the one after it. `None` at the end.
    fn next(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut header = tar::Header::new_gnu();
        let mut block = [0; BLOCK];
        self.file.read_exact(&mut block).map_err(|error| self.cut(&error))?;
        if block == [0; BLOCK] {
            return Ok(None);
        }
        header.as_mut_bytes().copy_from_slice(&block);
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
            .sum();
        let is_sound = header.cksum().is_ok_and(|written| written == sum);
        let entry = header.path().ok().zip(header.entry_size().ok());
        let entry = entry.and_then(|(path, size)| Some(Entry { name: path.to_str()?.to_owned(), size }));
        match entry {
            Some(entry) if is_sound && header.entry_type().is_file() => Ok(Some(entry)),
            _ => Err(self.damaged("a header is damaged")),
        }
    }

    /// Reads the content of an entry, and returns its SHA-256.
    fn content(
        &mut self,
        entry: &Entry,
        mut each: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<String, ArchiveError> {
        let (mut left, mut hash, mut chunk) = (entry.size, Sha256::new(), vec![0; CHUNK]);
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            self.file.read_exact(&mut chunk[..wanted]).map_err(|error| self.cut(&error))?;
            hash.update(&chunk[..wanted]);
            let written = each(&chunk[..wanted]);
            written.map_err(|error| ArchiveError::File { file: self.path.clone(), reason: error.to_string() })?;
            left -= wanted as u64;
        }
        let mut padding = vec![0; usize::try_from(rest(entry.size)).unwrap_or(0)];
        self.file.read_exact(&mut padding).map_err(|error| self.cut(&error))?;
        Ok(digits(&hash.finalize()))
    }

    fn cut(&self, error: &io::Error) -> ArchiveError {
        let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
        if is_cut { self.damaged("it ends too early") } else { self.damaged(&error.to_string()) }
    }

    fn damaged(&self, reason: &str) -> ArchiveError {
        ArchiveError::Damaged { file: self.path.clone(), reason: reason.to_owned() }
    }
}
