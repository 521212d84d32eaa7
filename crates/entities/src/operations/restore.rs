use gatewright_db::Value;
use gatewright_events::EventKind;

use super::rules::{self, Subject};
use super::transaction::{Transaction, within};
use super::write::{self, Write};
use super::{Admission, Call, Error, admit, get, narrow};
use crate::access::{Action, Reach};
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;

/// Undoes a soft delete, as an update: whoever follows the records learns of it by its event. A record that is not in the
/// trash is what the caller wants already.
pub(super) async fn restore(entities: &Entities, plan: &Plan, call: &Call, id: &str) -> Result<Record, Error> {
    let admission = admit(entities, plan, call, Action::Update).await?;
    let reach = admission.reach.clone();
    if plan.row_rules.iter().next().is_some() {
        return ruled(entities, plan, call, id, admission).await;
    }
    if !plan.soft_delete {
        return get::fetch(entities, plan, &reach, id).await;
    }
    match write::run(entities, write(entities, plan, call, id, &reach)?).await? {
        Some(record) => Ok(record),
        None => get::fetch(entities, plan, &reach, id).await,
    }
}

/// The same under access rules: the one for changes must hold too, and the caller is shown what they may read.
async fn ruled(entities: &Entities, plan: &Plan, call: &Call, id: &str, admission: Admission) -> Result<Record, Error> {
    let (plan, call, key) = (entities.at(plan.index).clone(), call.clone(), get::key(id, &admission.reach)?);
    let restored = within(entities, async move |transaction: &Transaction<'_>| {
        let (tx, reach, rule) = (transaction.tx, &admission.reach, admission.rule.as_ref());
        let found = tx.query_opt(plan.sql.trashed_or_live(reach), key.clone()).await?;
        found.ok_or(Error::NotFound)?;
        let Value::Text(id) = &key[0] else { return Err(Error::NotFound) };
        rules::check(tx, &plan, &call.identity, Action::Update, rule, Subject::Stored(id)).await?;
        let restored = if plan.soft_delete {
            let write = write(transaction.entities, &plan, &call, id, reach)?;
            write::perform(transaction, &write).await?
        } else {
            None
        };
        let record = match restored {
            Some(record) => {
                rules::check(tx, &plan, &call.identity, Action::Update, rule, Subject::Stored(id)).await?;
                record
            }
            None => write::one(tx, &plan, &plan.sql.get.within(reach), key.clone()).await?.ok_or(Error::NotFound)?,
        };
        narrow::changed(transaction, &plan, &call, &admission.standing, record, std::iter::empty()).await
    });
    restored.await
}

fn write(entities: &Entities, plan: &Plan, call: &Call, id: &str, reach: &Reach) -> Result<Write, Error> {
    let mut params = vec![Value::Time(entities.ambient().now())];
    params.extend(get::key(id, reach)?);
    Ok(Write {
        kind: EventKind::Updated,
        plan: entities.at(plan.index).clone(),
        // In the trash nobody could read it.
        id: None,
        sql: plan.sql.restore(reach),
        params,
        call: call.clone(),
        fields: Vec::new(),
        links: Vec::new(),
        precondition: None,
    })
}
