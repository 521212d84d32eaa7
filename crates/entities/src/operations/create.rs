use gatewright_base::Subject;
use gatewright_db::{Error as DatabaseError, Value};
use gatewright_events::EventKind;

use super::write::{self, Write};
use super::{Call, Error, links, reach};
use crate::access::{Action, Reach};
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;
use crate::value::Draft;
use crate::value::body::Mode;

pub(super) async fn create(entities: &Entities, plan: &Plan, call: &Call, body: &[u8]) -> Result<Record, Error> {
    let reach = reach(entities, plan, call, Action::Create).await?;
    let Draft(mut values) = Draft::read(&plan.fields, body, Mode::Create)?;
    stamp(plan, call, &reach, &mut values)?;
    let write = Write {
        kind: EventKind::Created,
        plan: entities.at(plan.index).clone(),
        sql: plan.sql.insert.clone(),
        params: row(entities, &values),
        links: links::links(entities, plan, call, &reach, &values).await?,
        precondition: None,
    };
    match write::run(entities, write).await {
        Ok(Some(record)) => Ok(record),
        // An INSERT that returns no row has inserted none.
        Ok(None) => Err(Error::NotFound),
        Err(Error::Database(DatabaseError::ForeignKey { .. })) => Err(links::explain(entities, plan, &values).await),
        Err(error) => Err(error),
    }
}

/// Puts the tenant and the caller into their fields.
fn stamp(plan: &Plan, call: &Call, reach: &Reach, values: &mut [Option<Value>]) -> Result<(), Error> {
    if let (Some(index), Some(tenant)) = (plan.tenant, reach.tenant()) {
        values[index] = Some(Value::from(tenant.as_str()));
    }
    let (Some(index), Some(owner)) = (plan.owner, reach.owner()) else { return Ok(()) };
    let is_service =
        call.identity.principal().is_some_and(|principal| matches!(principal.subject, Subject::Service(_)));
    if is_service && plan.fields.at(index).relation.is_some() {
        return Err(Error::ServiceOwner);
    }
    values[index] = Some(Value::from(owner));
    Ok(())
}

/// The parameters of the INSERT: id, every field, the two times.
fn row(entities: &Entities, values: &[Option<Value>]) -> Vec<Value> {
    let now = entities.ambient().now();
    let mut params = Vec::with_capacity(values.len() + 3);
    params.push(Value::Text(entities.next_id()));
    params.extend(values.iter().map(|value| value.clone().unwrap_or(Value::Null)));
    params.extend([Value::Time(now), Value::Time(now)]);
    params
}
