//! Files of records.
//!
//! # Design
//!
//! - A file has a row in `gatewright_files` from before its first byte is stored until after its bytes are deleted. So no byte
//!   in the store is without a row, whenever the process dies.
//! - The row has a state. `uploading`: bytes arrive. `partial`: they arrive in several
//!   requests (`resumable`). `staged`: all bytes are durable, and its uploader may attach it until it
//!   expires. `attached`: a record has it. `gone`: nothing has it, and its bytes are to be deleted.
//! - [`Files`] attaches a file inside of the transaction of the record's write, by one statement on its row: staged to attached.
//!   The record's column holds what describes the file. Triggers of the database note each file that a column loses, in the
//!   same transaction (`gatewright_entities::files`): no operation has to think of it.
//! - A task makes files that were noted, and uploads that expired, `gone`, deletes their bytes, and then their rows
//!   ([`Sweeper`]). A store that fails is asked again.
//! - One function decides about every upload, whichever way it comes: who may, how many at once, how fast, how many bytes
//!   ([`upload`]). Bytes are reserved in the database before they are stored, so that parallel uploads cannot exceed a quota.
//! - An upload in several requests (`resumable`) stores objects beside the file's own, and puts them together at its end.
//! - A thumbnail (`thumbnail`) is an object beside its file, made at the first request for it.
//! - A backup ([`archive`]) has the files that its database names; while it is written, none of them is deleted.
//! - A download asks the record's own GET whether the caller sees the file in the field.

pub mod archive;
mod attach;
mod clean;
mod http;
mod ledger;
mod names;
mod options;
mod problem;
mod resumable;
mod schema;
mod signature;
mod sniff;
mod store;
mod sweep;
#[cfg(test)]
mod testing;
mod thumbnail;
pub mod upload;
mod verify;

use std::fmt;
use std::sync::Arc;

use gatewright_base::{Ambient, Secret, Shares, SigningKey};
use gatewright_db::{Db, Error as DatabaseError, MigrateError};

pub use http::{Routes, is_upload};
pub use options::{Backend, FileOptions, S3};
pub use schema::{COMPONENT, STEPS};
pub use store::StoreError;
pub use sweep::Sweeper;
pub use verify::VerifyError;

use store::Store;

/// How many uploads of a caller run at the same time.
const UPLOADS: usize = 4;
/// How many downloads run at the same time, for a caller and in all.
const DOWNLOADS: (usize, usize) = (16, 256);
/// How many images are in memory at the same time, to be cleaned.
const IMAGES: (usize, usize) = (1, 4);

/// The files of a service. Cheap to clone.
#[derive(Clone)]
pub struct Files(Arc<Inner>);

struct Inner {
    db: Db,
    ambient: Ambient,
    store: Store,
    options: FileOptions,
    uploads: Shares<String>,
    downloads: Shares<String>,
    images: Shares<String>,
    thumbnails: thumbnail::Turns,
    signing: SigningKey,
}

/// Why files could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesInitError {
    /// The table could not be created.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// It is missing.
    #[error("the database lacks the table gatewright_files; run `gatewright migrate`")]
    Missing,
    /// The store cannot be used.
    #[error("[storage]: {0}")]
    Store(#[from] StoreError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Files {
    /// Opens the store and the table. `secrets` sign addresses: the first signs, all are accepted.
    pub async fn open<'s>(
        db: Db,
        ambient: Ambient,
        options: FileOptions,
        secrets: impl IntoIterator<Item = &'s Secret>,
    ) -> Result<Self, FilesInitError> {
        if options.create_tables {
            gatewright_db::migrate(&db, COMPONENT, STEPS).await?;
        }
        if gatewright_db::schema::describe(&db, "gatewright_files").await?.is_none() {
            return Err(FilesInitError::Missing);
        }
        let signing = SigningKey::derive(secrets, "gatewright/files/v1", &ambient);
        let store = Store::open(&options.backend)?;
        let shares = |(most, together)| Shares::within(most, together);
        let (downloads, images) = (shares(DOWNLOADS), shares(IMAGES));
        let uploads = Shares::within(UPLOADS, store.most_uploads());
        let thumbnails = thumbnail::Turns::default();
        Ok(Self(Arc::new(Inner { db, ambient, store, options, uploads, downloads, images, thumbnails, signing })))
    }
}

impl Files {
    /// A name that nobody can guess.
    fn new_id(&self) -> String {
        self.0.ambient.uuid().to_string()
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("store", &self.0.store).finish_non_exhaustive()
    }
}
