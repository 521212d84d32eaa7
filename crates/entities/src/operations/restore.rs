use gatewright_db::Value;
use gatewright_events::EventKind;

use super::write::{self, Write};
use super::{Call, Error, get, reach};
use crate::access::Action;
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;

/// Undoes a soft delete, as an update: whoever follows the records learns of it by its event. A record that is not in the
/// trash is what the caller wants already.
pub(super) async fn restore(entities: &Entities, plan: &Plan, call: &Call, id: &str) -> Result<Record, Error> {
    let reach = reach(entities, plan, call, Action::Update).await?;
    if !plan.soft_delete {
        return get::fetch(entities, plan, &reach, id).await;
    }
    let mut params = vec![Value::Time(entities.ambient().now())];
    params.extend(get::key(id, &reach)?);
    let write = Write {
        kind: EventKind::Updated,
        plan: entities.at(plan.index).clone(),
        sql: plan.sql.restore(&reach),
        params,
        call: call.clone(),
        fields: Vec::new(),
        links: Vec::new(),
        precondition: None,
    };
    match write::run(entities, write).await? {
        Some(record) => Ok(record),
        None => get::fetch(entities, plan, &reach, id).await,
    }
}
