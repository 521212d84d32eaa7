//! Uploads that arrive in several requests, to any server with the same database and store.
//!
//! Each request writes its bytes as objects beside the file's own, of a bounded size. An object counts from the moment at which
//! its row is committed: after a crash, the client continues behind the last of them. The last bytes do not count before the file
//! is whole: their request puts all objects together in the way of every other upload, which reads the content's type and hash and
//! removes metadata.

mod rest;
mod rows;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use gatewright_http::Problem;
use http::StatusCode;
use jiff::Timestamp;
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::ledger::{self, Account, Content, Upload};
use crate::upload::{Limits, Paced};
use crate::{Files, names, problem};

pub(crate) use rows::{Resumable, left, numbers};

use rows::{Found, Piece, Stopped, Unbegun};

/// The most bytes of an object: what is lost if the server dies.
const PIECE: u64 = 8 << 20;
/// The most objects of an upload.
const PIECES: u64 = 10_000;
/// The most objects that requests write one after the other without one that counts, beside those of the whole file a few times.
const UNCOUNTED: u64 = 100;
/// When another request may continue the upload.
const RETRY: std::time::Duration = std::time::Duration::from_secs(2);

/// The key of an object of an upload.
pub(crate) fn key(id: &str, number: u64) -> String {
    format!("{id}.p{number}")
}

/// What the client says about the bytes of a request.
#[derive(Debug, Clone)]
pub(crate) enum Checksum {
    Sha1(Vec<u8>),
    Sha256(Vec<u8>),
}

/// What the checksum of a request is computed with.
enum Hash {
    Nothing,
    Sha1(Sha1, Vec<u8>),
    Sha256(Sha256, Vec<u8>),
}

impl Hash {
    fn of(checksum: Option<Checksum>) -> Self {
        match checksum {
            None => Self::Nothing,
            Some(Checksum::Sha1(expected)) => Self::Sha1(Sha1::new(), expected),
            Some(Checksum::Sha256(expected)) => Self::Sha256(Sha256::new(), expected),
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        match self {
            Self::Nothing => {}
            Self::Sha1(hash, _) => hash.update(bytes),
            Self::Sha256(hash, _) => hash.update(bytes),
        }
    }

    fn matches(self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Sha1(hash, expected) => hash.finalize()[..] == expected[..],
            Self::Sha256(hash, expected) => hash.finalize()[..] == expected[..],
        }
    }
}

/// What a client wants to upload.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) length: u64,
    /// As the client sent it.
    pub(crate) metadata: &'a str,
    pub(crate) keep_metadata: bool,
}

/// Bytes that a request brings.
#[derive(Debug)]
pub(crate) struct Brought {
    pub(crate) offset: u64,
    /// How many come, if the client says it.
    pub(crate) expected: Option<u64>,
    pub(crate) checksum: Option<Checksum>,
}

/// An upload that a request continues.
struct Appending<'a> {
    files: &'a Files,
    account: &'a Account,
    of: &'a Resumable,
    word: String,
    /// How many bytes are stored, with those that do not count yet.
    at: u64,
    hash: Hash,
    /// Stored, and not yet counted.
    pending: Vec<Piece>,
    /// The number of the object that is being written.
    begun: Option<u64>,
    /// The number of the last object that counts.
    counted: u64,
}

/// How the bytes of a request ended.
enum Ended {
    /// There may be more.
    Full,
    All,
    /// The connection broke off, or was too slow.
    Cut(Problem),
}

impl Files {
    /// Begins an upload.
    pub(crate) async fn begin_resumable(&self, account: &Account, wanted: &Wanted<'_>) -> Result<Resumable, Problem> {
        let inner = &self.0;
        self.check_space(wanted.length).await?;
        let now = inner.ambient.now();
        let upload = Upload {
            id: self.new_id(),
            name: names::clean(wanted.name),
            account: account.clone(),
            expires_at: ledger::later(now, inner.options.upload_ttl),
        };
        let row = (wanted.length, wanted.metadata, wanted.keep_metadata);
        rows::begin(&inner.db, &upload, row, &inner.options, now).await.map_err(|error| match error {
            Unbegun::TooMany => {
                let detail = "the account has too many unfinished uploads; end some, or wait until they expire";
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_uploads", detail).retry_after(RETRY)
            }
            Unbegun::Unreserved(error) => problem::unreserved(error),
        })?;
        let Upload { id, name, expires_at, .. } = upload;
        let begun = Resumable {
            id,
            name,
            length: wanted.length,
            received: 0,
            expires_at,
            metadata: wanted.metadata.to_owned(),
            keep_metadata: wanted.keep_metadata,
            is_complete: false,
        };
        Ok(begun)
    }

    /// The upload of this account.
    pub(crate) async fn resumable(&self, account: &Account, id: &str) -> Result<Resumable, Problem> {
        let found = rows::find(&self.0.db, id, account, self.0.ambient.now()).await.map_err(problem::database)?;
        match found {
            Found::Here(upload) => Ok(upload),
            Found::Gone => Err(gone()),
            Found::Unknown => Err(Problem::not_found("no such upload")),
        }
    }

    /// Ends an upload that no record has.
    pub(crate) async fn end_resumable(&self, account: &Account, id: &str) -> Result<(), Problem> {
        let upload = self.resumable(account, id).await?;
        ledger::give_up(&self.0.db, account.share, &upload.id, self.0.ambient.now()).await.map_err(problem::database)
    }

    /// Stores the bytes of a request. Returns how many are stored, and until when the upload is kept.
    pub(crate) async fn append<S, E>(
        &self,
        account: &Account,
        of: &Resumable,
        brought: Brought,
        bytes: &mut Paced<S>,
    ) -> Result<(u64, Timestamp), Problem>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let Brought { offset, expected, checksum } = brought;
        if offset != of.received {
            return Err(elsewhere());
        }
        if expected.is_some_and(|bytes| bytes > of.length - of.received) {
            return Err(too_long());
        }
        if of.is_complete {
            return Ok((of.length, of.expires_at));
        }
        let inner = &self.0;
        self.check_space(expected.unwrap_or(of.length - of.received)).await?;
        let (share, word, now) = (account.share, self.new_id(), inner.ambient.now());
        let (counted, last) = rows::take(&inner.db, share, &of.id, offset, &word, now).await.map_err(stopped)?;
        // What earlier requests left, also of a server that died: no bytes are taken as long as it is there.
        self.delete_numbers(&of.id, counted + 1..=last).await.map_err(|error| problem::storage(&error))?;
        let (hash, pending) = (Hash::of(checksum), Vec::new());
        let mut appending =
            Appending { files: self, account, of, word, at: offset, hash, pending, begun: None, counted };
        let appended = appending.all(bytes).await;
        if let Some(rest) = appending.rest() {
            // It is deleted also if the request is dropped meanwhile.
            tokio::spawn(rest.delete()).await.map_err(|error| Problem::internal(&error))?;
        }
        appended
    }

    /// Deletes the objects of an upload whose file is whole.
    pub(crate) async fn delete_pieces(&self, id: &str) -> Result<(), Problem> {
        let numbers = rows::numbers(&self.0.db, id).await.map_err(problem::database)?;
        self.delete_numbers(id, 1..=numbers).await.map_err(|error| problem::storage(&error))?;
        rows::emptied(&self.0.db, id).await.map_err(problem::database)
    }
}

impl Appending<'_> {
    async fn all<S, E>(&mut self, bytes: &mut Paced<S>) -> Result<(u64, Timestamp), Problem>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let may_count = matches!(self.hash, Hash::Nothing);
        let mut expires_at = self.of.expires_at;
        loop {
            match self.piece(bytes).await? {
                // Without its end, a checksum tells nothing.
                Ended::Cut(problem) if !may_count => return Err(problem),
                Ended::Cut(problem) if self.at < self.of.length => {
                    self.commit().await?;
                    return Err(problem);
                }
                Ended::All | Ended::Cut(_) => break,
                Ended::Full if may_count && self.at < self.of.length => expires_at = self.commit().await?,
                Ended::Full => {}
            }
        }
        let hash = std::mem::replace(&mut self.hash, Hash::Nothing);
        if !hash.matches() {
            return Err(mismatch());
        }
        if self.at == self.of.length {
            expires_at = self.put_together().await?;
        } else if !self.pending.is_empty() {
            expires_at = self.commit().await?;
        }
        Ok((self.at, expires_at))
    }

    /// Stores the next bytes as one object.
    async fn piece<S, E>(&mut self, bytes: &mut Paced<S>) -> Result<Ended, Problem>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let mut next = match bytes.next().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Ended::All),
            Err(problem) => return Ok(Ended::Cut(problem)),
        };
        let (store, account) = (&self.files.0.store, self.account);
        let number = rows::number(&self.files.0.db, account.share, &self.of.id, &self.word).await.map_err(stopped)?;
        let most = 4 * (self.of.length / PIECE) + UNCOUNTED;
        if number > PIECES || number.saturating_sub(self.counted) > most {
            return Err(Problem::bad_request("the upload has come in too many pieces; send more in each request"));
        }
        self.begun = Some(number);
        let failed = |error| problem::storage(&error);
        let mut writer = store.write(&key(&self.of.id, number)).await.map_err(failed)?;
        let mut size = 0;
        let ended = loop {
            size += next.len() as u64;
            if self.at + size > self.of.length {
                writer.abort().await;
                return Err(too_long());
            }
            self.hash.read(&next);
            if let Err(error) = writer.write(&next).await {
                writer.abort().await;
                return Err(failed(error));
            }
            if size >= PIECE {
                break Ended::Full;
            }
            match bytes.next().await {
                Ok(Some(bytes)) => next = bytes,
                Ok(None) => break Ended::All,
                Err(problem) => break Ended::Cut(problem),
            }
        };
        writer.finish().await.map_err(failed)?;
        self.begun = None;
        self.pending.push(Piece { starts_at: self.at, size, number });
        self.at += size;
        Ok(ended)
    }

    /// Counts what is stored.
    async fn commit(&mut self) -> Result<Timestamp, Problem> {
        let inner = &self.files.0;
        let now = inner.ambient.now();
        let expires_at = ledger::later(now, inner.options.upload_ttl);
        let of = (&*self.of.id, &*self.word);
        rows::commit(&inner.db, self.account.share, of, &self.pending, expires_at, now).await.map_err(stopped)?;
        self.counted = self.pending.last().map_or(self.counted, |piece| piece.number);
        self.pending.clear();
        Ok(expires_at)
    }

    /// All bytes have arrived: they become the file.
    async fn put_together(&mut self) -> Result<Timestamp, Problem> {
        let inner = &self.files.0;
        self.files.check_space(self.of.length).await?;
        let (share, of) = (self.account.share, (&*self.of.id, &*self.word));
        let until = || Some(ledger::later(inner.ambient.now(), rows::BUSY));
        rows::busy(&inner.db, share, of, until()).await.map_err(stopped)?;
        let alive = async {
            loop {
                tokio::time::sleep(rows::BUSY / 4).await;
                if let Err(error) = rows::busy(&inner.db, share, of, until()).await {
                    tracing::debug!(?error, "an upload that is put together was not extended");
                }
            }
        };
        let upload = Upload {
            id: self.of.id.clone(),
            name: self.of.name.clone(),
            account: self.account.clone(),
            expires_at: ledger::later(inner.ambient.now(), inner.options.upload_ttl),
        };
        let whole = tokio::select! {
            whole = self.whole(&upload) => whole,
            () = alive => return Err(Problem::unavailable("the upload was not put together", RETRY)),
        };
        let refused = match whole {
            Ok(content) => {
                rows::stage(&inner.db, &upload, &self.word, &content, inner.ambient.now()).await.map_err(stopped)?;
                // The row has forgotten them, and they are deleted by their numbers.
                self.pending.clear();
                if let Err(problem) = self.files.delete_pieces(&self.of.id).await {
                    tracing::debug!(code = problem.code(), "bytes of an upload stay in the store for a while");
                }
                return Ok(upload.expires_at);
            }
            Err(refused) => refused,
        };
        if refused.status().is_client_error() && refused.status() != StatusCode::TOO_MANY_REQUESTS {
            let now = inner.ambient.now();
            ledger::give_up(&inner.db, share, &self.of.id, now).await.map_err(problem::database)?;
        } else {
            rows::busy(&inner.db, share, of, None).await.map_err(stopped)?;
        }
        Err(refused)
    }

    async fn whole(&self, upload: &Upload) -> Result<Content, Problem> {
        let inner = &self.files.0;
        let mut pieces = rows::pieces(&inner.db, &upload.id).await.map_err(problem::database)?;
        pieces.extend(&self.pending);
        let mut end = 0;
        for piece in &pieces {
            if piece.starts_at != end {
                return Err(Problem::internal(&std::io::Error::other("bytes of an upload are missing")));
            }
            end += piece.size;
        }
        if end != self.of.length {
            return Err(Problem::internal(&std::io::Error::other("bytes of an upload are missing")));
        }
        let (files, id) = (self.files.clone(), upload.id.clone());
        let stored = stream::iter(pieces).then(move |piece| {
            let (files, key) = (files.clone(), key(&id, piece.number));
            async move { files.0.store.read(&key, None).await.map_err(std::io::Error::other) }
        });
        let mut stored = Paced::stored(stored.try_flatten().boxed());
        let limits = Limits {
            max_bytes: self.of.length,
            rules: None,
            expected: Some(self.of.length),
            ttl: inner.options.upload_ttl,
            keep_metadata: self.of.keep_metadata,
        };
        self.files.receive(upload, self.of.length, &limits, &mut stored).await
    }
}

fn stopped(stopped: Stopped) -> Problem {
    match stopped {
        Stopped::Taken => {
            let detail = "another request continues the upload";
            Problem::new(StatusCode::LOCKED, "upload_in_progress", detail).retry_after(RETRY)
        }
        Stopped::Elsewhere => elsewhere(),
        Stopped::Gone => gone(),
        Stopped::Database(error) => problem::database(error),
    }
}

fn elsewhere() -> Problem {
    let detail = "the upload has another number of bytes than Upload-Offset says; ask with HEAD";
    Problem::new(StatusCode::CONFLICT, "upload_offset", detail)
}

fn gone() -> Problem {
    let detail = "the upload has expired, was ended, or a record has its file";
    Problem::new(StatusCode::GONE, "upload_gone", detail)
}

fn too_long() -> Problem {
    Problem::bad_request("the request has more bytes than Upload-Length leaves")
}

/// The status of the protocol for bytes that are not those of their checksum.
fn mismatch() -> Problem {
    let status = StatusCode::from_u16(460).unwrap_or(StatusCode::BAD_REQUEST);
    let detail = "the bytes are not those of Upload-Checksum; nothing of them is kept";
    Problem::of(status).with_detail(detail).with_code("checksum_mismatch")
}

#[cfg(test)]
mod tests;
