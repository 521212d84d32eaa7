use gatewright_db::{Share, Sql, Tx, Value};
use gatewright_events::{EntityEvent, EventKind, LoggedInsert};

use crate::context::entities::Entities;
use crate::encode::Stored;
use crate::error::Error;
use crate::hooks::change::{self, Change};
use crate::plan::Plan;

/// Stages and logs the event of a write in the write's own transaction, if this is enabled. Returns the event in the
/// form that is published after the commit.
pub(super) async fn stage(entities: &Entities, tx: &Tx, share: Share, change: &Change) -> Result<EntityEvent, Error> {
    let event = change.event();
    let staged = match entities.outbox() {
        Some(outbox) => Some(outbox.stage(tx, share, &event, change.facts(change.actor().as_ref())).await?),
        None => None,
    };
    match entities.log() {
        Some(log) => Ok(log.append(tx, event, staged).await?),
        None => Ok(event),
    }
}

/// Checks whether there is room for the event of a write, before the write begins its transaction.
pub(super) fn admit(entities: &Entities, share: Share) -> Result<(), Error> {
    match entities.outbox() {
        Some(outbox) => Ok(outbox.admit(share)?),
        None => Ok(()),
    }
}

/// Whether the event of a write belongs into its transaction.
pub(super) fn is_staged(entities: &Entities) -> bool {
    entities.outbox().is_some() || entities.log().is_some()
}

/// The one statement that makes and logs a record, the record, and the rest of the statement. Absent where that takes several: for
/// other writes than creates, for the outbox, and where the record is known only once it is stored.
pub(super) fn insert(
    entities: &Entities,
    kind: EventKind,
    plan: &Plan,
    params: &[Value],
) -> Result<Option<(Sql, Stored, LoggedInsert)>, Error> {
    let (Some(log), None, EventKind::Created) = (entities.log(), entities.outbox(), kind) else {
        return Ok(None);
    };
    let Some(sql) = &plan.sql.insert_logged else { return Ok(None) };
    let record = plan.shape.inserted(params)?;
    let event = change::event(kind, plan, record.whole());
    Ok(Some((sql.clone(), record, log.with_insert(params.to_vec(), event))))
}
