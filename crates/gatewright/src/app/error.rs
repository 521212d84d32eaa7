use gatewright_auth::AuthInitError;
use gatewright_db::OpenError;

use crate::config::Faults;

/// Why an [`App`](super::App) could not be built. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] Faults),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Functions cannot be used. One fault on each line.
    #[error("functions:\n{0}")]
    Functions(String),
    /// The tables of jobs cannot be used.
    #[error(transparent)]
    Jobs(#[from] crate::jobs::JobsInitError),
    /// A hook cannot be asked.
    #[error("a hook: {0}")]
    Hook(#[source] gatewright_events::outbox::webhook::WebhookError),
    /// Authentication cannot be built.
    #[error(transparent)]
    Auth(#[from] AuthInitError),
    /// The configured store of limits cannot be opened.
    #[error("{0}")]
    Limits(String),
    /// Mail cannot be set up.
    #[error("{0}")]
    Mail(String),
    /// The mail queue cannot be opened.
    #[cfg(feature = "mail")]
    #[error(transparent)]
    MailQueue(#[from] gatewright_mail::stored::MailQueueInitError),
    /// The store of files cannot be opened.
    #[cfg(feature = "files")]
    #[error(transparent)]
    Files(gatewright_files::FilesInitError),
    /// The configured fan-out cannot be opened.
    #[error("events.fanout_url: {0}")]
    Fanout(#[from] gatewright_events::fanout::ChannelError),
    /// The event log cannot be opened.
    #[error(transparent)]
    Log(#[from] gatewright_events::log::InitError),
    /// The outbox cannot be opened.
    #[error(transparent)]
    Outbox(#[from] gatewright_events::outbox::InitError),
    /// The table of kept answers cannot be opened.
    #[error(transparent)]
    Answers(#[from] gatewright_entities::answers::AnswersInitError),
    /// A durable consumer cannot be declared.
    #[error("a consumer of the outbox: {0}")]
    Consumer(#[from] gatewright_events::outbox::webhook::WebhookError),
    /// There are durable consumers, but the outbox is disabled.
    #[error("the program declares durable consumers, and `outbox.enabled` is false")]
    NoOutbox,
    /// The memberships of tenants cannot be opened.
    #[error(transparent)]
    Memberships(#[from] gatewright_entities::tenancy::MembershipsInitError),
    /// The table of running servers cannot be created.
    #[error("the table of servers: {0}")]
    Replicas(#[source] gatewright_db::MigrateError),
    /// The entities cannot be built.
    #[error(transparent)]
    Entities(#[from] gatewright_entities::BuildError),
}
