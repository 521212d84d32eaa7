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
use tokio::sync::Semaphore;

use super::account_events::{AccountOutbox, told_of_members};
use super::mail::MailService;
use super::parts;
use crate::Config;
use crate::admin::{AdminState, Parts, Series};
use crate::jobs::Jobs;

/// The parts that the admin API always needs.
pub(super) struct Admin<'a> {
    pub(super) config: &'a Config,
    pub(super) auth: Option<&'a Auth>,
    pub(super) entities: &'a Entities,
    pub(super) db: &'a Db,
    pub(super) streams: &'a Streams,
}

impl Admin<'_> {
    /// The state of the admin API; `None` if it is disabled.
    pub(super) fn state(
        self,
        ambient: &Ambient,
        outbox: Option<&Outbox>,
        fanout: Option<&FanoutStatus>,
        mail: &MailService,
        jobs: Option<&Jobs>,
    ) -> Option<AdminState> {
        let auth = self.auth.filter(|_| self.config.has_admin())?;
        let series = Series::new(ambient.clone());
        series.watch(self.streams.clone(), outbox.cloned());
        Some(AdminState::new(Parts {
            config: self.config.clone(),
            auth: auth.clone(),
            entities: self.entities.clone(),
            db: self.db.clone(),
            streams: self.streams.clone(),
            outbox: outbox.cloned(),
            fanout: fanout.cloned(),
            mail: mail.clone(),
            jobs: jobs.cloned(),
            series,
            ambient: ambient.clone(),
            started_at: ambient.now(),
            origin: Origin::of(&self.config.public_url()),
            audit_log: AuditLog::new(self.db.clone()),
            memberships: parts::has_tenants(self.config).then(|| {
                let events = AccountOutbox::new(self.config, outbox);
                told_of_members(SqlMemberships::new(self.db.clone(), ambient.clone()), events.as_ref())
            }),
            heavy: Semaphore::new(1),
            backups: Arc::new(Semaphore::new(1)),
        }))
    }
}
