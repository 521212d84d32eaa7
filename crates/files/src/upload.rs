//! One upload, whichever way it comes: how many at once, how fast, how many bytes, and what their content is.
//!
//! The bytes flow to the store in pieces: what an upload holds in memory is one part of the store's.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use gatewright_base::Turn;
use gatewright_entities::files::{FileInfo, FileRules};
use gatewright_http::Problem;
use http::StatusCode;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::ledger::{self, Account, Content, Unreserved, Upload};
use crate::sniff::{HEAD, Sniffer};
use crate::store::{StoreError, Writer};
use crate::{Files, clean, names, problem};

/// How many bytes are reserved at most at a time for a file of unknown size.
const FURTHER: u64 = 16 << 20;
/// How often an upload shows that it is alive.
const ALIVE: Duration = Duration::from_mins(1);
/// How long an upload waits for those of the same caller.
pub(crate) const TURN: Duration = Duration::from_secs(30);
/// An upload must bring so many bytes within this time.
pub(crate) const PACE: (u64, Duration) = (8 * 1024 * 30, Duration::from_secs(30));

/// The limits of one upload.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The most bytes.
    pub(crate) max_bytes: u64,
    /// What the field takes, if the field is known already.
    pub(crate) rules: Option<FileRules>,
    /// How many bytes will come, if the caller says it.
    pub(crate) expected: Option<u64>,
    /// How long the file can be attached.
    pub(crate) ttl: Duration,
    /// Whether EXIF, XMP and IPTC stay in images.
    pub(crate) keep_metadata: bool,
}

impl Files {
    /// Waits for the turn to upload. Callers have their own turns.
    pub(crate) async fn turn_to_upload(&self, account: &Account) -> Result<Turn, Problem> {
        let turn = self.0.uploads.take(account.owner.as_str().to_owned());
        tokio::time::timeout(TURN, turn).await.map_err(|_| too_many())
    }

    /// Refuses so many more bytes if less than the reserve would be free then.
    pub(crate) async fn check_space(&self, bytes: u64) -> Result<(), Problem> {
        let needed = self.0.options.reserve_bytes.saturating_add(bytes);
        self.0.store.check_space(needed).await.map_err(|error| problem::storage(&error))
    }

    /// Stores the bytes of a file, so that it can be attached.
    pub(crate) async fn store<S, E>(
        &self,
        account: &Account,
        name: &str,
        limits: &Limits,
        bytes: &mut Paced<S>,
    ) -> Result<FileInfo, Problem>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let inner = &self.0;
        if limits.expected.is_some_and(|bytes| bytes > limits.max_bytes) {
            return Err(problem::too_large(limits.max_bytes));
        }
        let reserved = limits.expected.unwrap_or(0);
        self.check_space(reserved).await?;
        let now = inner.ambient.now();
        let upload = Upload {
            id: self.new_id(),
            name: names::clean(name),
            account: account.clone(),
            expires_at: ledger::later(now, limits.ttl),
        };
        upload.begin(&inner.db, reserved, &inner.options, now).await.map_err(problem::unreserved)?;
        let mut unfinished = Unfinished { files: self, upload: Some(upload.clone()) };
        let content = self.receive(&upload, reserved, limits, bytes).await;
        let staged = match content {
            Ok(content) => {
                let staged = upload.stage(&inner.db, &content, inner.ambient.now()).await;
                staged.map(|()| content).map_err(problem::unreserved)
            }
            Err(refused) => Err(refused),
        };
        let Content { size, kind: content_type, sha256, .. } = match staged {
            Ok(content) => content,
            Err(refused) => return Err(refused),
        };
        unfinished.upload = None;
        Ok(FileInfo { id: upload.id, name: upload.name, size, content_type, sha256 })
    }

    /// The bytes go to the store. An image from which metadata is removed goes there as it is first: only a whole one can be
    /// cleaned, and its client may be slow.
    pub(crate) async fn receive<S, E>(
        &self,
        upload: &Upload,
        reserved: u64,
        limits: &Limits,
        bytes: &mut Paced<S>,
    ) -> Result<Content, Problem>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let mut receiving = Receiving { files: self, upload, limits, reserved, seen: Instant::now(), size: 0 };
        let head = receiving.head(bytes).await?;
        let format = clean::Format::of(&head);
        let Some(format) = format.filter(|_| !limits.keep_metadata) else {
            let received = self.write(&upload.id, async |writer| receiving.all(head, writer, bytes).await).await?;
            return received.content(limits, format.is_some());
        };
        let raw = raw(&upload.id);
        let dirty = self.write(&raw, async |writer| receiving.all(head, writer, bytes).await).await?;
        if dirty.size > clean::MOST {
            return Err(problem::too_large(clean::MOST));
        }
        let owner = upload.account.owner.as_str().to_owned();
        let _turn = tokio::time::timeout(TURN, self.0.images.take(owner)).await.map_err(|_| too_many())?;
        let image = self.0.store.whole(&raw, clean::MOST).await.map_err(|error| problem::storage(&error))?;
        let cleaned = tokio::task::spawn_blocking(move || format.clean(&image)).await;
        let image = cleaned.unwrap_or(Err(clean::Malformed)).map_err(|clean::Malformed| {
            let detail = "the image is cut off or malformed, so that metadata cannot be removed from it";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "file_type", detail)
        })?;
        let write = async |writer: &mut Writer| {
            writer.write(&image).await.map_err(|error| problem::storage(&error))?;
            let mut received = Received::default();
            received.read(&image);
            Ok(received)
        };
        let received = self.write(&upload.id, write).await?;
        if let Err(error) = self.0.store.delete(&raw).await {
            tracing::debug!(%error, "an image with metadata stays in the store until its file is deleted");
        }
        received.content(limits, false)
    }

    /// Writes an object. If that fails, nothing of it is left.
    async fn write(
        &self,
        key: &str,
        fill: impl AsyncFnOnce(&mut Writer) -> Result<Received, Problem>,
    ) -> Result<Received, Problem> {
        let failed = |error| problem::storage(&error);
        let mut writer = self.0.store.write(key).await.map_err(failed)?;
        let written = match fill(&mut writer).await {
            Ok(received) => writer.finish().await.map(|()| received).map_err(failed),
            Err(refused) => Err(refused),
        };
        if written.is_err() {
            writer.abort().await;
        }
        written
    }
}

/// The key of an image as it came.
pub(crate) fn raw(id: &str) -> String {
    format!("{id}.raw")
}

/// What has been received.
#[derive(Default)]
struct Received {
    hash: Sha256,
    sniffer: Sniffer,
    size: u64,
}

impl Received {
    fn read(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.sniffer.read(bytes);
        self.size += bytes.len() as u64;
    }

    /// What is known of the file, if its field takes it.
    fn content(self, limits: &Limits, has_metadata: bool) -> Result<Content, Problem> {
        let content_type = self.sniffer.content_type();
        match &limits.rules {
            Some(rules) if rules.require_removal && clean::is_uncleanable(content_type) => {
                let detail = format!("metadata cannot be removed from {content_type}");
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "file_type", detail));
            }
            Some(rules) if !rules.accepts(content_type) => {
                return Err(problem::wrong_type(content_type, &rules.accept));
            }
            Some(_) | None => {}
        }
        let sha256 = digits(&self.hash.finalize());
        Ok(Content { size: self.size, kind: content_type.to_owned(), sha256, has_metadata })
    }
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    digits(&Sha256::digest(bytes))
}

pub(crate) fn digits(hash: &[u8]) -> String {
    hash.iter().fold(String::with_capacity(64), |mut hex, byte| {
        use std::fmt::Write as _;
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}

fn too_many() -> Problem {
    let detail = "too many uploads are under way for this caller or in all";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_uploads", detail).retry_after(TURN)
}

/// An upload that is under way.
struct Receiving<'a> {
    files: &'a Files,
    upload: &'a Upload,
    limits: &'a Limits,
    reserved: u64,
    /// When it last showed that it is alive.
    seen: Instant,
    size: u64,
}

impl Receiving<'_> {
    /// The first bytes, which tell the format.
    async fn head<S, E>(&mut self, bytes: &mut Paced<S>) -> Result<Vec<u8>, Problem>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let mut head = Vec::new();
        while head.len() < clean::Format::HEAD
            && let Some(piece) = bytes.next().await?
        {
            self.count(piece.len() as u64).await?;
            head.extend_from_slice(&piece);
        }
        Ok(head)
    }

    /// The first bytes and all others go to the store.
    async fn all<S, E>(&mut self, head: Vec<u8>, writer: &mut Writer, bytes: &mut Paced<S>) -> Result<Received, Problem>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let (mut received, mut is_checked, mut next) = (Received::default(), false, Some(Bytes::from(head)));
        while let Some(piece) = next {
            received.read(&piece);
            // What the field does not take is refused before all of it has come. Text is known at its end.
            if !is_checked && self.size >= HEAD as u64 {
                is_checked = true;
                self.check_early(&received.sniffer)?;
            }
            writer.write(&piece).await.map_err(|error| problem::storage(&error))?;
            next = bytes.next().await?;
            if let Some(piece) = &next {
                self.count(piece.len() as u64).await?;
            }
        }
        Ok(received)
    }

    fn check_early(&self, sniffer: &Sniffer) -> Result<(), Problem> {
        let content_type = sniffer.content_type();
        match &self.limits.rules {
            Some(rules) if sniffer.is_certain() && !rules.accepts(content_type) => {
                Err(problem::wrong_type(content_type, &rules.accept))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Counts bytes that have arrived, and reserves more if they need it.
    async fn count(&mut self, bytes: u64) -> Result<(), Problem> {
        self.size += bytes;
        let (limits, inner) = (self.limits, &self.files.0);
        if self.size > limits.max_bytes {
            return Err(problem::too_large(limits.max_bytes));
        }
        let is_quiet = self.seen.elapsed() >= ALIVE;
        if self.size <= self.reserved && !is_quiet {
            return Ok(());
        }
        let missing = self.size.saturating_sub(self.reserved);
        let more = if missing == 0 {
            0
        } else {
            // Twice as much each time, within what the field takes.
            let more = missing.max(self.reserved.min(FURTHER));
            more.min(limits.max_bytes - self.reserved)
        };
        let now = inner.ambient.now();
        let extended = match self.upload.extend(&inner.db, more, &inner.options, now).await {
            // What is there may fit, although twice as much does not.
            Err(Unreserved::Quota) if more > missing => {
                self.upload.extend(&inner.db, missing, &inner.options, now).await.map(|()| missing)
            }
            extended => extended.map(|()| more),
        };
        self.reserved += extended.map_err(problem::unreserved)?;
        self.seen = Instant::now();
        if more > 0 {
            self.files.check_space(more).await?;
        }
        Ok(())
    }
}

/// An upload that is not complete. Dropped, as with its request, its bytes are given up.
struct Unfinished<'a> {
    files: &'a Files,
    upload: Option<Upload>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        let files = self.files.clone();
        // Without a runtime, or if this fails, the sweep does it later.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let now = files.0.ambient.now();
                if let Err(error) = ledger::give_up(&files.0.db, upload.account.share, &upload.id, now).await {
                    tracing::debug!(%error, "an upload that failed was not given up");
                }
            });
        }
    }
}

/// Bytes that must not come too slowly.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    first: Option<Bytes>,
    /// Whether they come from the store, and not from a client.
    is_stored: bool,
    bytes: S,
    since: Instant,
    arrived: u64,
}

impl<S> Paced<S> {
    pub(crate) fn new(bytes: S) -> Self {
        Self { first: None, is_stored: false, bytes, since: Instant::now(), arrived: 0 }
    }

    /// Bytes of the store.
    pub(crate) fn stored(bytes: S) -> Self {
        Self { is_stored: true, ..Self::new(bytes) }
    }

    /// The same bytes after a piece that was read before.
    pub(crate) fn after(self, first: Option<Bytes>) -> Self {
        Self { first, ..self }
    }
}

impl<S, E> Paced<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    /// The next bytes. 408 if too few have come in time.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let (least, time) = PACE;
        let is_stored = self.is_stored;
        let slow = || {
            let slow = Problem::of(StatusCode::REQUEST_TIMEOUT).with_detail("the upload is slower than 8 KiB a second");
            if is_stored { problem::storage(&StoreError::Slow) } else { slow }
        };
        let until = self.since + time;
        let piece = tokio::time::timeout_at(until, self.bytes.next()).await.map_err(|_| slow())?;
        let Some(piece) = piece else { return Ok(None) };
        let piece = piece.map_err(|error| {
            let broken = || Problem::bad_request(format!("the body cannot be read: {error}"));
            if is_stored { problem::unreadable(&error) } else { broken() }
        })?;
        self.arrived += piece.len() as u64;
        if self.arrived >= least {
            (self.since, self.arrived) = (Instant::now(), 0);
        }
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    /// Pieces of this size, this far apart.
    fn pieces(size: usize, apart: Duration) -> impl Stream<Item = Result<Bytes, Infallible>> + Unpin {
        let piece = move |number: u32| async move {
            tokio::time::sleep(apart).await;
            (number < 100).then(|| (Ok(Bytes::from(vec![0; size])), number + 1))
        };
        Box::pin(stream::unfold(0, piece))
    }

    /// How many bytes come before the end, or before they come too slowly.
    async fn read(bytes: impl Stream<Item = Result<Bytes, Infallible>> + Unpin) -> Result<usize, (usize, StatusCode)> {
        let (mut paced, mut count) = (Paced::new(bytes), 0);
        loop {
            match paced.next().await {
                Ok(Some(piece)) => count += piece.len(),
                Ok(None) => return Ok(count),
                Err(problem) => return Err((count, problem.status())),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_come_too_slowly_are_cut_and_others_may_take_all_day() {
        let slow = Err((30 * 8000, StatusCode::REQUEST_TIMEOUT));
        assert_eq!(read(pieces(8000, Duration::from_secs(1))).await, slow, "a little less than 8 KiB a second");
        assert_eq!(read(stream::pending()).await, Err((0, StatusCode::REQUEST_TIMEOUT)));
        assert_eq!(read(pieces(9000, Duration::from_secs(1))).await, Ok(900_000));
        // Large pieces with a pause between them.
        assert_eq!(read(pieces(1_000_000, Duration::from_secs(29))).await, Ok(100_000_000));
        assert_eq!(read(pieces(1_000_000, Duration::from_secs(31))).await, Err((0, StatusCode::REQUEST_TIMEOUT)));
    }
}
