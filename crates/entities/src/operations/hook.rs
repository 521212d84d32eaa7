use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gatewright_db::Tx;
use gatewright_events::{EntityEvent, EventKind};

use super::Error;
use crate::encode::Record;
use crate::plan::Plan;

/// One write to one record, inside its transaction.
#[derive(Debug, Clone)]
pub struct Change {
    /// What happens to the record.
    pub kind: EventKind,
    /// The entity.
    pub plan: Arc<Plan>,
    /// The record after the write, or as it last was when it is deleted.
    pub record: Record,
}

impl Change {
    /// The event that tells of it.
    pub(crate) fn event(&self) -> EntityEvent {
        let plan = &self.plan;
        let event = EntityEvent::new(self.kind, plan.name.clone(), plan.table.clone(), self.record.json().clone());
        let event = match self.record.tenant() {
            Some(tenant) => event.with_tenant(tenant.clone()),
            None => event,
        };
        match self.record.owner() {
            Some(owner) => event.with_owner(owner.clone()),
            None => event,
        }
    }
}

/// The future of a [`WriteHook`]. It need not be `Send`: it runs where its transaction runs.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

/// Something that belongs into every write's own transaction: an outbox row, an audit row, a host's own rule.
///
/// It runs after the row was written and before the commit, once for every changed record, those of cascades included.
/// An error rolls everything back: nothing is written and no event is emitted. The transaction may run again from its
/// start (see [`Db::write`](gatewright_db::Db::write)), so effects outside of it belong to
/// [`Tx::after_commit`](gatewright_db::Tx::after_commit). On SQLite everybody's writes wait for it: it must not wait for
/// anything but the transaction.
pub trait WriteHook: Send + Sync + 'static {
    /// Does its part. [`Error::Rejected`] refuses the write with a message for the caller.
    fn written<'a>(&'a self, tx: &'a Tx, change: &'a Change) -> HookFuture<'a>;
}
