use std::ops::Deref;
use std::sync::Arc;

use gatewright_auth::Auth;
use gatewright_auth::audit::AuditLog;
use gatewright_base::Ambient;
use gatewright_db::Db;
use gatewright_entities::Entities;
use gatewright_entities::tenancy::SqlMemberships;
use gatewright_events::Streams;
use gatewright_events::fanout::FanoutStatus;
use gatewright_events::outbox::Outbox;
use gatewright_http::Origin;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::Series;
use crate::Config;
use crate::app::mail::MailService;
use crate::jobs::Jobs;

/// The state of the handlers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AdminState(Arc<Parts>);

/// The services that an [`AdminState`] gives access to.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) auth: Auth,
    pub(crate) entities: Entities,
    pub(crate) db: Db,
    pub(crate) streams: Streams,
    pub(crate) outbox: Option<Outbox>,
    pub(crate) fanout: Option<FanoutStatus>,
    pub(crate) mail: MailService,
    pub(crate) jobs: Option<Jobs>,
    pub(crate) series: Series,
    pub(crate) ambient: Ambient,
    pub(crate) started_at: Timestamp,
    /// Of the public address.
    pub(crate) origin: Option<Origin>,
    pub(crate) audit_log: AuditLog,
    /// The memberships, if entities have tenants.
    pub(crate) memberships: Option<SqlMemberships>,
    /// Heavy reads of the database, one at a time.
    pub(crate) heavy: Semaphore,
    /// Backups that are being downloaded, one at a time.
    pub(crate) backups: Arc<Semaphore>,
}

impl AdminState {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for AdminState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
