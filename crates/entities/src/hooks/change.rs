use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::Subject;
use gatewright_db::Tx;
use gatewright_events::outbox::{Actor, ActorKind, Facts};
use gatewright_events::{EntityEvent, EventKind};

use crate::audience::Audience;
use crate::call::Call;
use crate::encode::Record;
use crate::error::Error;
use crate::plan::{Field, Plan};

/// One write to one record, inside its transaction.
#[derive(Debug, Clone)]
pub struct Change {
    /// What happens to the record.
    pub kind: EventKind,
    /// The entity.
    pub plan: Arc<Plan>,
    /// The record after the write, or as it last was when it is deleted.
    pub record: Record,
    /// The caller.
    pub call: Call,
    pub(crate) fields: Vec<usize>,
    /// The followers of the entity that may see the event, if a rule decides this.
    pub(crate) audience: Option<Audience>,
    pub(crate) before: Before,
    /// The earlier values of the fields that an update changed, as a JSON object, if a consumer wants them.
    pub(crate) previous: Option<String>,
}

/// Facts about the record before the write, if a rule decides who may read it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Before {
    /// The values that the rule reads of it.
    pub(crate) row: Option<String>,
    /// The followers that could read it, if this must be determined before the write.
    pub(crate) audience: Option<Audience>,
}

impl Change {
    /// The fields that the write set, without hidden ones: all for a new record, none for a deleted one.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().map(|index| self.plan.fields.at(*index)).filter(|field| !field.hidden)
    }

    /// Who makes the change. `None`: a caller without credentials.
    pub(crate) fn actor(&self) -> Option<Actor> {
        let of = |kind, id: &str| Some(Actor { kind, id: Some(id.to_owned()) });
        if let Some(hook) = self.call.hook() {
            return of(ActorKind::Function, hook);
        }
        match self.call.identity.principal() {
            Some(principal) => match (principal.impersonated_by(), &principal.subject) {
                (Some(operator), _) => of(ActorKind::Operator, operator.as_str()),
                (None, subject) if self.call.is_operators() => of(ActorKind::Operator, subject.as_str()),
                (None, Subject::User(user)) => of(ActorKind::User, user.as_str()),
                (None, Subject::Service(service)) => of(ActorKind::Service, service.as_str()),
            },
            None if !self.call.is_requested => Some(Actor { kind: ActorKind::System, id: None }),
            None => None,
        }
    }

    /// What the outbox stores of the change beside the event.
    pub(crate) fn facts<'a>(&'a self, actor: Option<&'a Actor>) -> Facts<'a> {
        Facts { record: Some(self.record.id()), actor, previous: self.previous.as_deref(), chain: self.call.chain }
    }

    /// The event that announces the change.
    pub(crate) fn event(&self) -> EntityEvent {
        let event = event(self.kind, &self.plan, &self.record);
        let event = match &self.before.row {
            Some(row) => event.with_before(row.as_str()),
            None => event,
        };
        let event = match &self.call.released {
            Some(user) if self.kind == EventKind::Deleted && event.owner().is_none() => event.with_owner(user.as_str()),
            _ => event,
        };
        match &self.audience {
            Some(audience) => event.with_payload(Arc::new(audience.clone())),
            None => event,
        }
    }
}

/// The event that announces a write to one record.
pub(crate) fn event(kind: EventKind, plan: &Plan, record: &Record) -> EntityEvent {
    let event = EntityEvent::new(kind, plan.name.clone(), plan.table.clone(), record.json().clone());
    let event = match record.tenant() {
        Some(tenant) => event.with_tenant(tenant.clone()),
        None => event,
    };
    match record.owner() {
        Some(owner) => event.with_owner(owner.clone()),
        None => event,
    }
}

/// Code that runs in the transaction of every entity's writes: for an outbox row, an audit row. For one entity use
/// [`EntityHooks`](super::EntityHooks).
///
/// It runs after the row was written and before the commit, once for every changed record, including those of cascades.
/// An error rolls everything back: nothing is written and no event is emitted. The transaction may run again from its
/// start (see [`Db::write`](gatewright_db::Db::write)), so put effects outside of it into
/// [`Tx::after_commit`](gatewright_db::Tx::after_commit). On SQLite all other writes wait for it: it must not wait for
/// anything except the transaction.
#[async_trait]
pub trait ChangeHook: Send + Sync + 'static {
    /// Called for each change. [`Error::Rejected`] refuses the write with a message for the caller.
    async fn written(&self, tx: &Tx, change: &Change) -> Result<(), Error>;
}
