use gatewright_base::{Ambient, Budget};
use gatewright_db::OpenError;
use gatewright_events::outbox::{InitError, Outbox};

use crate::app::parts;
use crate::{Config, functions};

/// Why the outbox cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The outbox is disabled.
    #[error("`outbox.enabled` is false, and no function listens to events: there is no outbox")]
    Disabled,
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The outbox cannot be opened.
    #[error(transparent)]
    Outbox(#[from] InitError),
}

/// Opens the outbox of a configuration for an operator, with or without a running server. Delivers nothing.
pub async fn outbox(config: &Config) -> Result<Outbox, OutboxError> {
    let mut config = config.clone();
    config.outbox.enabled |= functions::listen(&config).is_some();
    let db = parts::open(&config).await?;
    parts::outbox(&config, &[], &db, &Ambient::system(), &Budget::unlimited()).await?.ok_or(OutboxError::Disabled)
}
