//! What happens to tenants and their members, told in the transaction in which it happens: [`MemberEvents::watch`] reads the roles of a
//! member before, and [`Watched::tell`] compares them with those afterwards.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Roles, Subject, TenantId};
use gatewright_db::{Error, Tx, dialect, params};
use jiff::Timestamp;

use crate::{MemberKind, roles, tenants};

/// What happened in a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberEvent {
    /// A user made the tenant, which has this name.
    TenantCreated {
        /// The name.
        name: String,
    },
    /// An account is a member from now on.
    Added(Subject, Roles),
    /// A member has these roles now.
    Updated(Subject, Roles),
    /// An account is no longer a member. It had these roles.
    Removed(Subject, Roles),
}

impl MemberEvent {
    /// The types of all events.
    pub const TYPES: [&str; 4] = ["tenant.created", "member.added", "member.updated", "member.removed"];

    /// The type of the event: `member.added`.
    pub fn type_name(&self) -> &'static str {
        let [created, added, updated, removed] = Self::TYPES;
        match self {
            Self::TenantCreated { .. } => created,
            Self::Added(..) => added,
            Self::Updated(..) => updated,
            Self::Removed(..) => removed,
        }
    }
}

/// Takes the events of tenants and members, each in the transaction of its change.
#[async_trait]
pub trait MemberEventSink: Send + Sync + 'static {
    /// Keeps an event. If this fails, nothing changes.
    async fn tell(&self, tx: &Tx, tenant: &TenantId, event: &MemberEvent) -> Result<(), Error>;
}

/// Where events of tenants and members go, if anywhere.
#[derive(Clone, Default)]
pub(crate) struct MemberEvents(Option<Arc<dyn MemberEventSink>>);

/// Members as they were before a change.
pub(crate) struct Watched {
    sink: Option<Arc<dyn MemberEventSink>>,
    before: Vec<(TenantId, Subject, Option<Roles>)>,
}

impl MemberEvents {
    pub(crate) fn new(sink: Arc<dyn MemberEventSink>) -> Self {
        Self(Some(sink))
    }

    /// Locks the tenant, so that of several who add one member each sees what the one before did.
    pub(crate) async fn lock(&self, tx: &Tx, tenant: &TenantId, at: Timestamp) -> Result<(), Error> {
        if self.0.is_some() { tenants::lock(tx, tenant, at).await } else { Ok(()) }
    }

    /// Remembers a member who is about to be changed, and locks their membership until the end of the transaction.
    pub(crate) async fn watch(&self, tx: &Tx, tenant: &TenantId, member: &Subject) -> Result<Watched, Error> {
        let mut watched = Watched { sink: self.0.clone(), before: Vec::new() };
        if watched.sink.is_some() {
            let held = held(tx, tenant, member, dialect::for_update(tx.engine())).await?;
            watched.before.push((tenant.clone(), member.clone(), held));
        }
        Ok(watched)
    }

    /// Remembers all memberships of an account.
    pub(crate) async fn watch_all(&self, tx: &Tx, member: &Subject) -> Result<Watched, Error> {
        let mut watched = Watched { sink: self.0.clone(), before: Vec::new() };
        if watched.sink.is_some() {
            let lock = dialect::for_update(tx.engine());
            let sql = format!(
                "SELECT tenant_id, roles FROM tenant_members WHERE member_kind = ?1 AND member_id = ?2 ORDER BY tenant_id{lock}"
            );
            let kind = MemberKind::of(member).as_str();
            for row in tx.query(sql, params![kind, member.as_str()]).await? {
                watched.before.push((row.get("tenant_id")?, member.clone(), Some(roles::read(&row)?)));
            }
        }
        Ok(watched)
    }

    /// A tenant was made.
    pub(crate) async fn created(&self, tx: &Tx, tenant: &TenantId, name: &str) -> Result<(), Error> {
        match &self.0 {
            Some(sink) => sink.tell(tx, tenant, &MemberEvent::TenantCreated { name: name.to_owned() }).await,
            None => Ok(()),
        }
    }
}

impl Watched {
    /// Tells what has happened to the members since.
    pub(crate) async fn tell(self, tx: &Tx) -> Result<(), Error> {
        let Some(sink) = self.sink else { return Ok(()) };
        for (tenant, member, before) in self.before {
            let event = match (before, held(tx, &tenant, &member, "").await?) {
                (None, Some(roles)) => MemberEvent::Added(member, roles),
                (Some(before), Some(roles)) if before != roles => MemberEvent::Updated(member, roles),
                (Some(before), None) => MemberEvent::Removed(member, before),
                (Some(_), Some(_)) | (None, None) => continue,
            };
            sink.tell(tx, &tenant, &event).await?;
        }
        Ok(())
    }
}

/// The roles of a member; `None` of an account that is none.
async fn held(tx: &Tx, tenant: &TenantId, member: &Subject, lock: &str) -> Result<Option<Roles>, Error> {
    let sql = "SELECT roles FROM tenant_members WHERE tenant_id = ?1 AND member_kind = ?2 AND member_id = ?3";
    let sql = format!("{sql}{lock}");
    let row = tx.query_opt(sql, params![tenant, MemberKind::of(member).as_str(), member.as_str()]).await?;
    row.as_ref().map(roles::read).transpose()
}

impl fmt::Debug for MemberEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemberEvents").field(&self.0.is_some()).finish()
    }
}
