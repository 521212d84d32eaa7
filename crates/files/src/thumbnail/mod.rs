//! Thumbnails: made at the first request, once, and kept in the store beside their file.
//!
//! A caller makes one at a time, and the server a few: requests of others do not wait for those of one. Parallel requests for the
//! same thumbnail wait for the one that makes it. That an image cannot be read is remembered.

mod picture;
mod rows;

use std::sync::Arc;

use gatewright_base::Shares;
use gatewright_db::Share;
use gatewright_entities::files::{FileInfo, Thumbnail};
use gatewright_http::Problem;
use http::StatusCode;
use tokio::sync::Semaphore;

use crate::upload::{TURN, hex};
use crate::{Files, clean, problem};

pub(crate) use rows::{Made, sizes};

use picture::Unmade;
use rows::Known;

/// How many images are decoded at the same time.
const DECODED: usize = 2;

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    callers: Shares<String>,
    /// By the key of the thumbnail.
    thumbnails: Shares<String>,
    processors: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        let processors = Arc::new(Semaphore::new(DECODED));
        Self { callers: Shares::new(1), thumbnails: Shares::new(1), processors }
    }
}

/// The key of a thumbnail in the store.
pub(crate) fn key(file: &str, size: &str) -> String {
    format!("{file}.{size}")
}

/// The thumbnail of one file in one size.
#[derive(Clone)]
struct Wanted {
    file: FileInfo,
    size: String,
    thumbnail: Thumbnail,
    share: Share,
}

impl Files {
    /// The thumbnail of a file, which is made if it is not there. `None` for a file that is no image of a known format. `whose` is
    /// the caller whose turn it takes.
    pub(crate) async fn thumbnail(
        &self,
        file: &FileInfo,
        (size, thumbnail): (&str, Thumbnail),
        whose: &str,
    ) -> Result<Option<Made>, Problem> {
        if picture::format(&file.content_type).is_none() {
            return Ok(None);
        }
        let share = Share::of(&whose);
        let wanted = Wanted { file: file.clone(), size: size.to_owned(), thumbnail, share };
        if let Some(known) = self.known(&wanted).await? {
            return answer(known).map(Some);
        }
        let own = tokio::time::timeout(TURN, self.0.thumbnails.callers.take(whose.to_owned())).await;
        let own = own.map_err(|_| busy())?;
        let files = self.clone();
        // It is made to its end, also if the client goes: the turn is taken until then.
        let making = tokio::spawn(async move {
            let _own = own;
            files.make(&wanted).await
        });
        let made = making.await.map_err(|error| Problem::internal(&error))?;
        made.and_then(answer).map(Some)
    }

    /// What is known of a thumbnail. One whose bytes are missing, as after a backup was restored, is not known.
    async fn known(&self, wanted: &Wanted) -> Result<Option<Known>, Problem> {
        let Wanted { file, size, .. } = wanted;
        let known = rows::find(&self.0.db, &file.id, size).await.map_err(problem::database)?;
        if let Some(Known::Made(_)) = known
            && !self.0.store.exists(&key(&file.id, size)).await.map_err(|error| problem::storage(&error))?
        {
            return Ok(None);
        }
        Ok(known)
    }

    async fn make(&self, wanted: &Wanted) -> Result<Known, Problem> {
        let Wanted { file, size, share, .. } = wanted;
        let inner = &self.0;
        let _only = inner.thumbnails.thumbnails.take(key(&file.id, size)).await;
        if let Some(known) = self.known(wanted).await? {
            return Ok(known);
        }
        let processor = inner.thumbnails.processors.clone().acquire_owned().await;
        let processor = processor.map_err(|error| Problem::internal(&error))?;
        let gone = || Problem::not_found("no such file");
        let now = || inner.ambient.now();
        if !rows::begin(&inner.db, *share, &file.id, size, now()).await.map_err(problem::database)? {
            return Err(gone());
        }
        let made = self.picture(wanted).await?;
        drop(processor);
        let known = match made {
            Err(Unmade::TooLarge) => Known::TooLarge,
            Err(Unmade::Unreadable) => Known::Unreadable,
            Ok(picture) => {
                let write = async {
                    let mut writer = inner.store.write(&key(&file.id, size)).await?;
                    writer.write(&picture.bytes).await?;
                    writer.finish().await
                };
                write.await.map_err(|error| problem::storage(&error))?;
                let content_type = picture.content_type.to_owned();
                Known::Made(Made { bytes: picture.bytes.len() as u64, content_type, sha256: hex(&picture.bytes) })
            }
        };
        if !rows::end(&inner.db, *share, &file.id, size, &known, now()).await.map_err(problem::database)? {
            // The file was deleted meanwhile. If this fails, the comparison of the store with the database finds it.
            if let Err(error) = inner.store.delete(&key(&file.id, size)).await {
                tracing::debug!(%error, "the thumbnail of a deleted file stays in the store for a while");
            }
            return Err(gone());
        }
        Ok(known)
    }

    /// Reads and decodes the file, and makes its thumbnail.
    async fn picture(&self, wanted: &Wanted) -> Result<Result<picture::Picture, Unmade>, Problem> {
        let Wanted { file, thumbnail, .. } = wanted;
        if file.size > clean::MOST {
            return Ok(Err(Unmade::TooLarge));
        }
        let Some(format) = picture::format(&file.content_type) else { return Ok(Err(Unmade::Unreadable)) };
        let image = self.0.store.whole(&file.id, clean::MOST).await.map_err(|error| problem::storage(&error))?;
        let size = *thumbnail;
        let made = tokio::task::spawn_blocking(move || picture::make(&image, format, size)).await;
        // A decoder that panics has not read it.
        Ok(made.unwrap_or(Err(Unmade::Unreadable)))
    }
}

fn answer(known: Known) -> Result<Made, Problem> {
    let detail = match known {
        Known::Made(made) => return Ok(made),
        Known::TooLarge => "the image has too many pixels or bytes for a thumbnail",
        Known::Unreadable => "the image is damaged, so that it has no thumbnail",
    };
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "thumbnail_unavailable", detail))
}

fn busy() -> Problem {
    let detail = "too many thumbnails of this caller are being made";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_downloads", detail).retry_after(TURN)
}
