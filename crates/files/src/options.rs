use std::path::PathBuf;
use std::time::Duration;

use gatewright_base::Secret;

/// Settings of [`Files`](crate::Files).
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Where the bytes are.
    pub backend: Backend,
    /// The most bytes that one account has in files, those in the trash and unattached ones included. 0: no limit.
    pub quota_per_user_bytes: u64,
    /// The most bytes of files that one account has uploaded and not attached.
    pub staged_per_user_bytes: u64,
    /// The most bytes that anonymous callers of one network upload within a day.
    pub anonymous_bytes_per_day: u64,
    /// The free space below which nothing is stored in a folder.
    pub reserve_bytes: u64,
    /// How long an uploaded file can be attached.
    pub upload_ttl: Duration,
    /// How long deleted bytes stay in the store.
    pub keep_deleted: Duration,
    /// The most bytes of the parts of a form that are no files.
    pub max_body_bytes: usize,
    /// Whether the tables are created.
    pub create_tables: bool,
}

/// Where the bytes are.
#[derive(Debug, Clone)]
pub enum Backend {
    /// A folder. It is created.
    Local(PathBuf),
    /// A bucket.
    S3(S3),
}

/// A bucket of S3, or of what is compatible with it.
#[derive(Debug, Clone)]
pub struct S3 {
    /// Another server than Amazon's.
    pub endpoint: Option<String>,
    /// The region.
    pub region: String,
    /// The name of the bucket.
    pub bucket: String,
    /// The key's id.
    pub access_key_id: String,
    /// The key.
    pub secret_access_key: Secret,
    /// Whether the bucket is part of the path, and not of the host.
    pub path_style: bool,
    /// What the keys of objects begin with.
    pub prefix: String,
}

impl FileOptions {
    /// The defaults, with the bytes there.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            quota_per_user_bytes: 0,
            staged_per_user_bytes: 1 << 30,
            anonymous_bytes_per_day: 100 << 20,
            reserve_bytes: 1 << 30,
            upload_ttl: Duration::from_hours(24),
            keep_deleted: Duration::ZERO,
            max_body_bytes: 1 << 20,
            create_tables: true,
        }
    }
}
