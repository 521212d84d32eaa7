//! Files in a build without the feature `files`: the check of the configuration refuses entities with files.

use axum::Router;
use axum::extract::Request;
use gatewright_base::Ambient;
use gatewright_db::{Db, Step};
use gatewright_entities::{Builder as EntitiesBuilder, Entities};

use super::BuildError;
use crate::Config;

/// No tables.
pub(crate) const SCHEMA: Option<(&str, &[Step])> = None;

/// No task.
pub(super) type Task = ();

/// No files.
#[derive(Clone)]
pub(crate) struct FileService;

impl FileService {
    pub(crate) async fn open(_: &Config, _: &Db, _: &Ambient) -> Result<Self, BuildError> {
        Ok(Self)
    }

    pub(super) fn give_to(&self, entities: EntitiesBuilder, _: &Config) -> EntitiesBuilder {
        entities
    }

    pub(super) fn around(&self, records: Router, _: &Config, _: &Entities) -> Router {
        records
    }

    pub(super) fn is_upload(&self, _: &Config, _: &Entities) -> Option<fn(&Request) -> bool> {
        None
    }

    pub(crate) async fn verify(
        &self,
        _: &[String],
        _: impl FnMut(String, &'static str),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    pub(super) fn task(&self) -> Option<Task> {
        None
    }
}
