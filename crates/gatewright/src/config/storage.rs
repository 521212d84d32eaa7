use std::path::{Path, PathBuf};
use std::time::Duration;

use gatewright_base::Secret;

use super::Config;
use super::read::Section;

/// `[storage]`: where the files of records are. Absent: in the folder `files` beside the SQLite database.
#[derive(Debug, Clone)]
pub struct Storage {
    /// `local` or `s3`.
    pub backend: String,
    /// The folder. A relative path is beside the SQLite database; on Postgres it is relative to the current folder.
    pub path: PathBuf,
    /// The most bytes of one account's files. 0: no limit.
    pub quota_per_user_bytes: u64,
    /// The most bytes that one account has uploaded and not attached.
    pub staged_per_user_bytes: u64,
    /// The most bytes that anonymous callers of one network upload on one day.
    pub anonymous_bytes_per_day: u64,
    /// The free space below which uploads are refused.
    pub reserve_bytes: u64,
    /// How long an uploaded file can be attached.
    pub upload_ttl: Duration,
    /// How long deleted bytes stay in the store.
    pub keep_deleted_days: u32,
    /// `[storage.s3]`
    pub s3: Option<S3>,
}

/// `[storage.s3]`: a bucket.
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
    /// Whether the bucket is part of the path.
    pub path_style: bool,
    /// What the keys of objects begin with.
    pub prefix: String,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            backend: "local".to_owned(),
            path: PathBuf::from("files"),
            quota_per_user_bytes: 0,
            staged_per_user_bytes: 1 << 30,
            anonymous_bytes_per_day: 100 << 20,
            reserve_bytes: 1 << 30,
            upload_ttl: Duration::from_hours(24),
            keep_deleted_days: 0,
            s3: None,
        }
    }
}

impl Storage {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            backend: section.value("backend", default.backend, "`\"local\"` (a folder) or `\"s3\"`."),
            path: PathBuf::from(section.value(
                "path",
                "files".to_owned(),
                "The folder of the files. A relative path is beside the SQLite database; on Postgres it is relative to the \
                 current folder.",
            )),
            quota_per_user_bytes: section.value(
                "quota_per_user_bytes",
                default.quota_per_user_bytes,
                "The most bytes of the files that one account has uploaded, with those in the trash and those that are not \
                 attached. Above it: 413 `quota_exceeded`. 0: no limit.",
            ),
            staged_per_user_bytes: section.value(
                "staged_per_user_bytes",
                default.staged_per_user_bytes,
                "The most bytes that one account has uploaded and not attached. Above it: 413 `quota_exceeded`.",
            ),
            anonymous_bytes_per_day: section.value(
                "anonymous_bytes_per_day",
                default.anonymous_bytes_per_day,
                "The most bytes that anonymous callers of one network upload on one day (UTC). Above it: 413 \
                 `quota_exceeded`.",
            ),
            reserve_bytes: section.value(
                "reserve_bytes",
                default.reserve_bytes,
                "Free space of the folder's disk below which uploads are 503 `storage_full`.",
            ),
            upload_ttl: section.seconds(
                "upload_ttl_seconds",
                default.upload_ttl,
                "How long a file that was uploaded by itself can be attached to a record.",
            ),
            keep_deleted_days: section.value(
                "keep_deleted_days",
                default.keep_deleted_days,
                "Days that deleted bytes stay in the store, out of reach, so that a restored backup of that age finds them.",
            ),
            s3: section.optional_section("s3", S3::read),
        }
    }
}

impl S3 {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            endpoint: section
                .optional::<String>("endpoint", "The URL of a server that is compatible with S3. Without it, Amazon's.")
                .filter(|url| !url.is_empty()),
            region: section.value("region", "us-east-1".to_owned(), "The region."),
            bucket: section.required("bucket", "The name of the bucket."),
            access_key_id: section.required("access_key_id", "The id of the access key."),
            secret_access_key: section.required_secret("secret_access_key", "The access key."),
            path_style: section.value(
                "path_style",
                false,
                "Whether the bucket is part of the path and not of the host, as other servers than Amazon's often need.",
            ),
            prefix: section.value("prefix", String::new(), "What the keys of objects begin with."),
        }
    }
}

impl Config {
    /// The folder of the files, unless they are in a bucket. `None` if a database has no folder beside it and none is named.
    pub fn files_folder(&self) -> Option<PathBuf> {
        let path = self.storage.as_ref().map_or(Path::new("files"), |storage| &storage.path);
        match self.database.file() {
            _ if path.is_absolute() => Some(path.to_owned()),
            Some(file) => Some(file.parent().unwrap_or(Path::new("")).join(path)),
            None => self.storage.as_ref().map(|storage| storage.path.clone()),
        }
    }

    /// Whether an entity has files.
    pub fn has_files(&self) -> bool {
        self.entities.iter().any(gatewright_entities::Entity::has_files)
    }
}
