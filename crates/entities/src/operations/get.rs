use gatewright_db::Value;

use super::{Call, Error, reach};
use crate::access::{Action, Reach};
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;
use crate::value::types::is_id;

pub(super) async fn get(entities: &Entities, plan: &Plan, call: &Call, id: &str) -> Result<Record, Error> {
    let reach = reach(entities, plan, call, Action::Read).await?;
    fetch(entities, plan, &reach, id).await
}

/// The record within `reach`.
pub(super) async fn fetch(entities: &Entities, plan: &Plan, reach: &Reach, id: &str) -> Result<Record, Error> {
    let params = key(id, reach)?;
    let each = {
        let plan = entities.at(plan.index).clone();
        move |record: &mut Option<Record>, row: &gatewright_db::RowRef<'_>| {
            *record = Some(plan.shape.record(row)?);
            Ok(())
        }
    };
    let record = entities.db().fold(plan.sql.get.within(reach), params, None, each).await?;
    record.ok_or(Error::NotFound)
}

/// The parameters that name a record within `reach`. What could be no id names none.
pub(super) fn key(id: &str, reach: &Reach) -> Result<Vec<Value>, Error> {
    if !is_id(id) {
        return Err(Error::NotFound);
    }
    let mut params = vec![Value::Text(id.to_owned())];
    params.extend(reach.params());
    Ok(params)
}
