//! Files of records: the store, its endpoints and its task, if an entity has files.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use gatewright_base::Ambient;
use gatewright_db::{Db, Step};
use gatewright_entities::{Builder as EntitiesBuilder, Entities};
use gatewright_files::{Backend, FileOptions, Files, Routes, S3, Sweeper};
use gatewright_http::Origin;

use super::BuildError;
use crate::Config;

const DAY: Duration = Duration::from_hours(24);

/// The tables of files, if the build has them.
pub(crate) const SCHEMA: Option<(&str, &[Step])> = Some((gatewright_files::COMPONENT, gatewright_files::STEPS));

/// The task that deletes bytes.
pub(super) type Task = Sweeper;

/// The files, if an entity has some. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FileService(Option<Files>);

impl FileService {
    pub(crate) async fn open(config: &Config, db: &Db, ambient: &Ambient) -> Result<Self, BuildError> {
        if !config.has_files() {
            return Ok(Self(None));
        }
        let (secret, previous) = (&config.auth.jwt_secret, &config.auth.jwt_previous_secrets);
        let secrets = std::iter::once(secret).chain(previous);
        let files = Files::open(db.clone(), ambient.clone(), options(config), secrets).await;
        files.map(Some).map(Self).map_err(BuildError::Files)
    }

    /// The entities with their store of files.
    pub(super) fn give_to(&self, entities: EntitiesBuilder, config: &Config) -> EntitiesBuilder {
        let entities = entities.api_prefix(config.api_prefix());
        match &self.0 {
            Some(files) => entities.files(Arc::new(files.clone())),
            None => entities,
        }
    }

    /// The endpoints of records with those of files.
    pub(super) fn around(&self, records: Router, config: &Config, entities: &Entities) -> Router {
        let Some(files) = &self.0 else { return records };
        let origin = Origin::of(&config.public_url());
        let routes = Routes::new(files.clone(), entities.clone(), config.api_prefix(), origin);
        routes.around(records).merge(routes.router())
    }

    /// Tells requests that upload files.
    pub(super) fn is_upload(
        &self,
        config: &Config,
        entities: &Entities,
    ) -> Option<impl Fn(&Request) -> bool + Send + Sync + 'static> {
        self.0.as_ref()?;
        let (prefix, entities) = (config.api_prefix().to_owned(), entities.clone());
        let has_files = move |table: &str| {
            let mut plans = entities.plans().iter().filter(|plan| plan.table() == table);
            plans.any(|plan| plan.fields().any(|field| field.files().is_some()))
        };
        Some(move |request: &Request| gatewright_files::is_upload(request, &prefix, &has_files))
    }

    /// Names the files that the database and the store do not agree about.
    pub(crate) async fn verify(
        &self,
        tables: &[String],
        each: impl FnMut(String, &'static str),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        match &self.0 {
            Some(files) => Ok(files.verify(tables, each).await?),
            None => Ok(()),
        }
    }

    pub(super) fn task(&self) -> Option<Task> {
        self.0.clone().map(Sweeper::start)
    }
}

/// Whether the files are in a bucket.
pub(crate) fn is_bucket(config: &Config) -> bool {
    config.storage.as_ref().is_some_and(|storage| storage.backend == "s3")
}

/// Where the files are.
pub(crate) fn backend(config: &Config) -> Backend {
    let s3 = config.storage.as_ref().and_then(|storage| storage.s3.as_ref());
    match s3.filter(|_| is_bucket(config)) {
        Some(s3) => Backend::S3(S3 {
            endpoint: s3.endpoint.clone(),
            region: s3.region.clone(),
            bucket: s3.bucket.clone(),
            access_key_id: s3.access_key_id.clone(),
            secret_access_key: s3.secret_access_key.clone(),
            path_style: s3.path_style,
            prefix: s3.prefix.clone(),
        }),
        // The check of the configuration demands a folder.
        None => Backend::Local(config.files_folder().unwrap_or_else(|| "files".into())),
    }
}

fn options(config: &Config) -> FileOptions {
    let storage = config.storage.clone().unwrap_or_default();
    FileOptions {
        quota_per_user_bytes: storage.quota_per_user_bytes,
        staged_per_user_bytes: storage.staged_per_user_bytes,
        anonymous_bytes_per_day: storage.anonymous_bytes_per_day,
        reserve_bytes: storage.reserve_bytes,
        upload_ttl: storage.upload_ttl,
        keep_deleted: DAY * storage.keep_deleted_days,
        max_body_bytes: config.server.max_body_bytes,
        create_tables: config.database.create_tables,
        ..FileOptions::new(backend(config))
    }
}
