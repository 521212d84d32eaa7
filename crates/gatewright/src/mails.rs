use gatewright_base::Ambient;
use gatewright_db::OpenError;
use gatewright_mail::stored::{MailQueue, MailQueueInitError};

use crate::Config;
use crate::app::{mail, parts};

/// Why the mail queue cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MailQueueError {
    /// There is no mail queue.
    #[error("no mail server is configured in [email]: there is no mail queue")]
    Disabled,
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The queue cannot be opened.
    #[error(transparent)]
    Queue(#[from] MailQueueInitError),
}

/// Opens the mail queue of a configuration for an operator, with or without a running server. Sends nothing.
pub async fn mail_queue(config: &Config) -> Result<MailQueue, MailQueueError> {
    let db = parts::open(config).await?;
    mail::queue(config, &db, &Ambient::system()).await?.ok_or(MailQueueError::Disabled)
}
