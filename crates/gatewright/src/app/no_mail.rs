//! Mail in a build without the feature `mail`: a program uses its own `Mailer`, or sends no mail.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use gatewright_auth::{Auth, Mailer};
use gatewright_base::Ambient;
use gatewright_db::{Db, Step};

use super::BuildError;
use crate::Config;
use crate::carriers::without;
use crate::functions::Message;

/// No queue, and no table of it.
pub(crate) const SCHEMA: Option<(&str, &[Step])> = None;

/// Takes no mail away.
#[derive(Clone)]
pub(crate) struct MailService;

impl MailService {
    pub(crate) async fn open(config: &Config, _: &Db, _: &Ambient) -> Result<Self, BuildError> {
        match config.email {
            Some(_) => Err(BuildError::Mail(format!("email: {}", without("mail")))),
            None => Ok(Self),
        }
    }

    pub(super) fn prepared(&self, _: &Config) -> Result<Option<()>, String> {
        Ok(None)
    }

    pub(super) fn replace(&self, (): &()) {}

    pub(super) fn has_templates(&self) -> bool {
        false
    }

    pub(crate) fn is_stored(&self) -> bool {
        false
    }

    pub(crate) fn counts(&self) -> Option<[(&'static str, u64); 6]> {
        None
    }

    pub(crate) fn can_send(&self) -> bool {
        false
    }

    pub(crate) fn is_address(_: &str) -> bool {
        false
    }

    pub(crate) async fn send(&self, _: Message) -> Result<(), String> {
        Err(without("mail"))
    }

    pub(crate) fn mailer(&self) -> Option<Arc<dyn Mailer>> {
        None
    }

    pub(super) fn routes(&self, _: &Config, _: Option<&Auth>) -> Router {
        Router::new()
    }

    pub(crate) async fn close(&self, _: Duration) {}
}
