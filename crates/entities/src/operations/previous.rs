//! The earlier values of the fields that a write changes, for consumers of the outbox that want them.

use std::collections::HashMap;

use gatewright_db::{Tx, Value, dialect};
use serde_json::value::RawValue;

use crate::context::entities::Entities;
use crate::encode::{Record, Stored};
use crate::error::Error;
use crate::plan::Plan;

/// Whether a consumer wants them of this entity.
pub(super) fn is_wanted(entities: &Entities, plan: &Plan) -> bool {
    entities.outbox().is_some_and(|outbox| outbox.wants_previous(&plan.name))
}

/// The records before a write, by their ids, held until the transaction ends. Empty if nobody wants their values.
pub(super) async fn take(
    tx: &Tx,
    entities: &Entities,
    plan: &Plan,
    ids: &[&str],
) -> Result<HashMap<String, Stored>, Error> {
    if ids.is_empty() || !is_wanted(entities, plan) {
        return Ok(HashMap::new());
    }
    let sql = plan.sql.with_ids(ids.len(), dialect::for_update(plan.engine));
    let params = ids.iter().map(|id| Value::from(*id)).collect();
    let each = |records: &mut HashMap<String, Stored>, row: &gatewright_db::RowRef<'_>| {
        let record = plan.shape.record(row)?;
        records.insert(record.id().to_owned(), record);
        Ok(())
    };
    Ok(tx.fold(sql, params, HashMap::new(), each).await?)
}

/// The values of `before` in the fields that `after` has otherwise: a JSON object by the keys of the wire. Hidden fields are in neither.
pub(super) fn between(plan: &Plan, before: &Stored, after: &Record) -> Option<String> {
    let before = before.fields().ok()?;
    let after: HashMap<String, &RawValue> = serde_json::from_slice(after.json()).ok()?;
    let mut previous: HashMap<&str, &RawValue> = HashMap::new();
    for field in plan.fields.iter() {
        let (old, new) = (before.get(&*field.key), after.get(&*field.key));
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.get() != old.get())) {
            previous.insert(&field.key, old);
        }
    }
    serde_json::to_string(&previous).ok()
}
