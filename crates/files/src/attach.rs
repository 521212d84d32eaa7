use async_trait::async_trait;
use gatewright_db::{Error as DatabaseError, Tx};
use gatewright_entities::files::{Attaching, FileInfo, FileStore, Unattachable};

use crate::{Files, clean, ledger};

#[async_trait]
impl FileStore for Files {
    async fn attach(
        &self,
        tx: &Tx,
        to: Attaching<'_>,
        ids: &[String],
    ) -> Result<Vec<Result<FileInfo, Unattachable>>, DatabaseError> {
        let mut attached = Vec::with_capacity(ids.len());
        for id in ids {
            let mut found = None;
            for uploader in to.uploaders {
                if found.is_none() {
                    found = ledger::attach(tx, id, uploader, (to.table, to.field, to.record), to.now).await?;
                }
            }
            attached.push(match found {
                None => Err(Unattachable::NotFound),
                Some((_, true)) if !to.rules.keep_metadata => Err(Unattachable::Metadata),
                Some((file, _)) if to.rules.require_removal && clean::is_uncleanable(&file.content_type) => {
                    Err(Unattachable::Metadata)
                }
                Some((file, _)) if file.size > to.rules.max_bytes => Err(Unattachable::TooLarge),
                Some((file, _)) if !to.rules.accepts(&file.content_type) => Err(Unattachable::Type),
                Some((file, _)) => Ok(file),
            });
        }
        Ok(attached)
    }
}
