use gatewright_db::{Error as DatabaseError, Value};
use gatewright_events::EventKind;

use super::write::{self, Precondition, Write};
use super::{Call, Error, IfMatch, get, links, reach};
use crate::access::{Action, Reach};
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;
use crate::value::Draft;
use crate::value::body::Mode;

pub(super) async fn update(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    id: &str,
    body: &[u8],
    if_match: Option<IfMatch>,
) -> Result<Record, Error> {
    let reach = reach(entities, plan, call, Action::Update).await?;
    let key = get::key(id, &reach)?;
    let Draft(values) = Draft::read(&plan.fields, body, Mode::Update)?;
    if values.iter().all(Option::is_none) {
        return unchanged(entities, plan, &reach, id, if_match.as_ref()).await;
    }
    let columns = plan.given(&values).map(|(field, _)| &*field.column).chain(["updated_at"]);
    let sql = plan.sql.update(columns, &reach);
    let mut params: Vec<Value> = plan.given(&values).map(|(_, value)| value.clone()).collect();
    params.push(Value::Time(entities.ambient().now()));
    params.extend(key.iter().cloned());
    let write = Write {
        kind: EventKind::Updated,
        plan: entities.at(plan.index).clone(),
        sql,
        params,
        links: links::links(entities, plan, call, &reach, &values).await?,
        precondition: if_match.map(|if_match| Precondition {
            if_match,
            sql: plan.sql.lock.within(&reach),
            params: key,
        }),
    };
    match write::run(entities, write).await {
        Ok(record) => record.ok_or(Error::NotFound),
        Err(Error::Database(DatabaseError::ForeignKey { .. })) => Err(links::explain(entities, plan, &values).await),
        Err(error) => Err(error),
    }
}

/// A body that names no field: the record as it is.
async fn unchanged(
    entities: &Entities,
    plan: &Plan,
    reach: &Reach,
    id: &str,
    if_match: Option<&IfMatch>,
) -> Result<Record, Error> {
    let record = get::fetch(entities, plan, reach, id).await?;
    let matches = if_match.is_none_or(|if_match| if_match.matches(&record.etag()));
    if matches { Ok(record) } else { Err(Error::Precondition) }
}
