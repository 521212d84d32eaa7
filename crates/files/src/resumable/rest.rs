//! What a request has written that does not count.

use std::ops::RangeInclusive;

use futures_util::{StreamExt, TryStreamExt, stream};
use gatewright_db::Share;

use super::{Appending, key, rows};
use crate::Files;
use crate::store::StoreError;

/// How many objects are deleted at the same time.
const DELETED: usize = 16;

/// Objects of a request that do not count, as far as the request knows.
pub(super) struct Rest {
    files: Files,
    share: Share,
    id: String,
    word: String,
    numbers: Vec<u64>,
}

impl Rest {
    /// Deletes them. What fails, the next request of the upload does, or the sweep with the whole upload.
    pub(super) async fn delete(self) {
        let Self { files, share, id, word, numbers } = self;
        // The database may have counted what the request did not learn of any more. From here on, it counts nothing more.
        let counted = match rows::give_back(&files.0.db, share, (&id, &word)).await {
            Ok(counted) => counted,
            Err(error) => return tracing::debug!(%error, "bytes of an upload stay in the store until it is continued"),
        };
        for number in numbers {
            if counted.iter().any(|piece| piece.number == number) {
                continue;
            }
            if let Err(error) = files.0.store.delete(&key(&id, number)).await {
                tracing::debug!(%error, "bytes of an upload stay in the store until it is continued");
            }
        }
    }
}

impl Appending<'_> {
    /// What is stored and does not count. `None` if all does.
    pub(super) fn rest(&mut self) -> Option<Rest> {
        let pending = std::mem::take(&mut self.pending);
        let numbers: Vec<u64> = pending.iter().map(|piece| piece.number).chain(self.begun.take()).collect();
        if numbers.is_empty() {
            return None;
        }
        let (files, share) = (self.files.clone(), self.account.share);
        Some(Rest { files, share, id: self.of.id.clone(), word: self.word.clone(), numbers })
    }
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        let Some(rest) = self.rest() else { return };
        // Without a runtime, the next request does it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(rest.delete());
        }
    }
}

impl Files {
    /// Deletes objects of an upload. They need not be there.
    pub(super) async fn delete_numbers(&self, id: &str, numbers: RangeInclusive<u64>) -> Result<(), StoreError> {
        let keys: Vec<String> = numbers.map(|number| key(id, number)).collect();
        let store = &self.0.store;
        let deleted = keys.into_iter().map(|key| async move { store.delete(&key).await });
        stream::iter(deleted).buffer_unordered(DELETED).try_collect().await
    }
}
