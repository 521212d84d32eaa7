use gatewright_db::Tx;
use gatewright_events::EntityEvent;

use super::Error;
use crate::entities::Entities;

/// Stages and logs the event of a write in the write's own transaction, where that is asked for. The event comes back as
/// it goes to the bus after the commit.
pub(super) async fn stage(entities: &Entities, tx: &Tx, event: EntityEvent) -> Result<EntityEvent, Error> {
    let staged = match entities.outbox() {
        Some(outbox) => Some(outbox.stage(tx, &event).await?),
        None => None,
    };
    match entities.log() {
        Some(log) => Ok(log.append(tx, event, staged).await?),
        None => Ok(event),
    }
}

/// Whether the event of a write belongs into its transaction.
pub(super) fn is_staged(entities: &Entities) -> bool {
    entities.outbox().is_some() || entities.log().is_some()
}
