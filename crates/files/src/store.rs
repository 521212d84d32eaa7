//! Where the bytes are: a folder or a bucket, behind one trait of `object_store`.
//!
//! A file of a folder is written beside its place, synced to disk and renamed. Every request to the store has a time limit, so
//! that a slow store is a refusal and not a request that waits.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error as ObjectError, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt};

use crate::options::{Backend, S3};

/// How long the store may take for one request.
const TIME: Duration = Duration::from_secs(10);
/// How many bytes are written at once: to a folder, and to a bucket, where parts of less are refused.
const LOCAL_PART: usize = 256 << 10;
const S3_PART: usize = 5 << 20;
/// The most bytes of all uploads together in memory.
const IN_MEMORY: usize = 320 << 20;

/// Why the store did not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It has no such object.
    #[error("the store has no such file")]
    NotFound,
    /// There is too little free space in the folder.
    #[error("there is too little free space")]
    Full,
    /// It took too long.
    #[error("the store took too long")]
    Slow,
    /// The build has no S3.
    #[error("this build has no S3; build it with the feature `s3`")]
    NoS3,
    /// The folder cannot be created or used.
    #[error("the folder {} cannot be used: {error}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        #[source]
        error: std::io::Error,
    },
    /// It failed.
    #[error("{0}")]
    Failed(#[source] ObjectError),
}

impl From<ObjectError> for StoreError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::NotFound { .. } => Self::NotFound,
            error => Self::Failed(error),
        }
    }
}

pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    part: usize,
    folder: Option<PathBuf>,
}

impl Store {
    pub(crate) fn open(backend: &Backend) -> Result<Self, StoreError> {
        match backend {
            Backend::Local(folder) => {
                let refused = |error| StoreError::Folder { folder: folder.clone(), error };
                create(folder).map_err(refused)?;
                let folder = folder.canonicalize().map_err(refused)?;
                let objects = LocalFileSystem::new_with_prefix(&folder)?.with_fsync(true);
                Ok(Self { objects: Arc::new(objects), prefix: Path::default(), part: LOCAL_PART, folder: Some(folder) })
            }
            Backend::S3(settings) => {
                let prefix = Path::parse(settings.prefix.trim_matches('/'))
                    .map_err(|error| StoreError::Failed(ObjectError::InvalidPath { source: error }))?;
                Ok(Self { objects: bucket(settings)?, prefix, part: S3_PART, folder: None })
            }
        }
    }

    /// How many uploads may be under way at the same time.
    pub(crate) fn most_uploads(&self) -> usize {
        (IN_MEMORY / self.part).min(256)
    }

    fn place(&self, key: &str) -> Path {
        // Few entries in each folder: the last digits of an id are random.
        let id = key.split('.').next().unwrap_or(key);
        let group = id.get(id.len().saturating_sub(2)..).unwrap_or_default();
        self.prefix.clone().join(group).join(key)
    }

    /// Fails if a folder has less free space than this.
    pub(crate) async fn check_space(&self, needed: u64) -> Result<(), StoreError> {
        let Some(folder) = self.folder.clone() else { return Ok(()) };
        let free = timed(async { Ok(tokio::task::spawn_blocking(move || free_space(&folder)).await.unwrap_or(0)) });
        if free.await? < needed { Err(StoreError::Full) } else { Ok(()) }
    }

    /// Begins to write an object.
    pub(crate) async fn write(&self, key: &str) -> Result<Writer, StoreError> {
        let place = self.place(key);
        let upload = timed(async { Ok(self.objects.put_multipart(&place).await?) }).await?;
        Ok(Writer { upload, part: self.part, buffer: BytesMut::new() })
    }

    /// Bytes of an object.
    pub(crate) async fn read(
        &self,
        key: &str,
        range: Option<Range<u64>>,
    ) -> Result<BoxStream<'static, Result<Bytes, std::io::Error>>, StoreError> {
        let place = self.place(key);
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let found = timed(async { Ok(self.objects.get_opts(&place, options).await?) }).await?;
        Ok(found.into_stream().map_err(std::io::Error::other).boxed())
    }

    /// All of an object that has at most so many bytes.
    pub(crate) async fn whole(&self, key: &str, most: u64) -> Result<Vec<u8>, StoreError> {
        let mut pieces = self.read(key, None).await?;
        timed(async {
            let mut whole = Vec::new();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|error| {
                    StoreError::Failed(ObjectError::Generic { store: "files", source: error.into() })
                })?;
                whole.extend_from_slice(&piece);
                if whole.len() as u64 > most {
                    return Err(StoreError::NotFound);
                }
            }
            Ok(whole)
        })
        .await
    }

    /// Whether there is an object.
    pub(crate) async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        let place = self.place(key);
        match timed(async { Ok(self.objects.head(&place).await?) }).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object. It need not be there.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let place = self.place(key);
        match timed(async { Ok(self.objects.delete(&place).await?) }).await {
            Err(StoreError::NotFound) => Ok(()),
            done => done,
        }
    }

    /// The keys of all objects, with the times at which they were written, in seconds since 1970.
    pub(crate) fn list(&self) -> BoxStream<'static, Result<(String, i64), StoreError>> {
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let found = self.objects.list(prefix);
        let named = |meta: object_store::ObjectMeta| {
            let key = meta.location.filename().unwrap_or_default().to_owned();
            (key, meta.last_modified.timestamp())
        };
        found.map(move |found| Ok(named(found?))).boxed()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("objects", &self.objects.to_string()).finish_non_exhaustive()
    }
}

/// An object that is written. It exists once it is [finished](Self::finish).
pub(crate) struct Writer {
    upload: Box<dyn MultipartUpload>,
    part: usize,
    buffer: BytesMut,
}

impl Writer {
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let wanted = (self.part - self.buffer.len()).min(rest.len());
            self.buffer.extend_from_slice(&rest[..wanted]);
            rest = &rest[wanted..];
            if self.buffer.len() == self.part {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        let part = std::mem::take(&mut self.buffer).freeze();
        timed(async { Ok(self.upload.put_part(part.into()).await?) }).await
    }

    /// Makes the object durable.
    pub(crate) async fn finish(&mut self) -> Result<(), StoreError> {
        if !self.buffer.is_empty() {
            self.flush().await?;
        }
        timed(async { Ok(self.upload.complete().await?) }).await.map(|_| ())
    }

    /// Removes what was written.
    pub(crate) async fn abort(&mut self) {
        if let Err(error) = timed(async { Ok(self.upload.abort().await?) }).await {
            tracing::debug!(%error, "an upload that failed was not removed from the store");
        }
    }
}

/// The result of a request to the store, if there is one in time.
async fn timed<T>(request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    tokio::time::timeout(TIME, request).await.unwrap_or(Err(StoreError::Slow))
}

fn create(folder: &std::path::Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

#[cfg(unix)]
fn free_space(folder: &std::path::Path) -> u64 {
    // A file system that does not tell is not full.
    rustix::fs::statvfs(folder).map_or(u64::MAX, |space| space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(not(unix))]
fn free_space(_: &std::path::Path) -> u64 {
    u64::MAX
}

#[cfg(feature = "s3")]
fn bucket(settings: &S3) -> Result<Arc<dyn ObjectStore>, StoreError> {
    use object_store::aws::AmazonS3Builder;
    use object_store::{ClientOptions, RetryConfig};

    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&settings.bucket)
        .with_region(&settings.region)
        .with_access_key_id(&settings.access_key_id)
        .with_secret_access_key(settings.secret_access_key.expose())
        .with_virtual_hosted_style_request(!settings.path_style)
        .with_retry(RetryConfig { max_retries: 2, retry_timeout: TIME, ..RetryConfig::default() });
    let mut client = ClientOptions::new().with_connect_timeout(Duration::from_secs(5));
    if let Some(endpoint) = &settings.endpoint {
        client = client.with_allow_http(endpoint.starts_with("http://"));
        builder = builder.with_endpoint(endpoint);
    }
    Ok(Arc::new(builder.with_client_options(client).build()?))
}

#[cfg(not(feature = "s3"))]
fn bucket(_: &S3) -> Result<Arc<dyn ObjectStore>, StoreError> {
    Err(StoreError::NoS3)
}
