use gatewright_base::{Ambient, Budget};
use gatewright_db::OpenError;
use gatewright_events::outbox::{InitError, Outbox};

use crate::Config;
use crate::app::parts;

/// Why the outbox cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The outbox is disabled.
    #[error("`outbox.enabled` is false: there is no outbox")]
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
    let db = parts::open(config).await?;
    parts::outbox(config, &db, &Ambient::system(), &Budget::unlimited()).await?.ok_or(OutboxError::Disabled)
}
